// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// When this many workloads, and more than this share of the node's, are gone at
// once, the list from the API server is doubted.
const (
	suspiciousCount = 3
	suspiciousShare = 5
)

// tokenLength is the length of the token that a person confirms with.
const tokenLength = 12

// candidate is a workload of which something is on this node.
type candidate struct {
	UID types.UID
	// ClusterID is the cluster it came from, as recorded; "" if unknown.
	ClusterID string
	// Ending: its end was asked for in the proper way already.
	Ending bool
}

// orphanInput is what the decision about orphans depends on.
type orphanInput struct {
	// ClusterID is the cluster that the list is from.
	ClusterID string
	// Listed are the UIDs in the complete list from the API server.
	Listed map[types.UID]bool
	// Candidates are all workloads of which something is on this node.
	Candidates []candidate
	// Confirmed is the token that a person put on the Node.
	Confirmed string
}

// orphanDecision is what is to be done about orphans.
type orphanDecision struct {
	// Kill are ended now.
	Kill []types.UID
	// Ending are being ended already, and need not wait for their objects.
	Ending []types.UID
	// Held wait for a person to confirm Token; Message says why.
	Held    []types.UID
	Token   string
	Message string
}

// empty says that there is nothing to do.
func (d orphanDecision) empty() bool { return len(d.Kill)+len(d.Held)+len(d.Ending) == 0 }

// decideOrphans decides about workloads that the API server does not have. The
// list must be complete. One from another cluster, or one in which suspiciously
// many are gone at once, kills nothing until a person confirms.
func decideOrphans(in orphanInput) orphanDecision {
	var gone, foreign, ending []types.UID
	total := 0
	for _, c := range in.Candidates {
		if !c.Ending {
			total++
		}
		elsewhere := c.ClusterID != "" && c.ClusterID != in.ClusterID
		switch {
		case in.Listed[c.UID]:
		case c.Ending && elsewhere:
		case c.Ending:
			ending = append(ending, c.UID)
		case elsewhere:
			foreign = append(foreign, c.UID)
		default:
			gone = append(gone, c.UID)
		}
	}
	slices.Sort(gone)
	slices.Sort(foreign)
	slices.Sort(ending)
	d := orphanDecision{Kill: gone}
	many := len(gone)+len(foreign) >= suspiciousCount && (len(gone)+len(foreign))*suspiciousShare > total
	switch {
	case many:
		d = hold(in, nil, append(gone, foreign...),
			fmt.Sprintf("%d of the node's %d workloads are gone at once", len(gone)+len(foreign), total))
	case len(foreign) > 0:
		d = hold(in, gone, foreign, fmt.Sprintf("%d workloads are of another cluster than %s", len(foreign), in.ClusterID))
	}
	d.Ending = ending
	return d
}

// hold makes orphans wait, unless a person has confirmed exactly these.
func hold(in orphanInput, kill, held []types.UID, why string) orphanDecision {
	token := tokenOf(in.ClusterID, held)
	if in.Confirmed == token {
		return orphanDecision{Kill: append(kill, held...)}
	}
	return orphanDecision{
		Kill: kill, Held: held, Token: token,
		Message: fmt.Sprintf("%s: their containers are kept until the annotation %s=%s on the shim's lease confirms that they may be killed",
			why, v1alpha1.AnnotationConfirmOrphans, token),
	}
}

// tokenOf stands for these orphans in this cluster: a confirmation is good for
// no others.
func tokenOf(clusterID string, uids []types.UID) string {
	sorted := slices.Sorted(slices.Values(uids))
	parts := []string{clusterID}
	for _, uid := range sorted {
		parts = append(parts, string(uid))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])[:tokenLength]
}
