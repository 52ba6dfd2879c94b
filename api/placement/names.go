// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxNameLength keeps the name of a NodeWorkload usable as a host name.
const maxNameLength = validation.DNS1123LabelMaxLength

// hashLength is the number of hex digits that tell equal beginnings apart.
const hashLength = 10

// NodeWorkloadName is the name of a workload's NodeWorkload on a node, computed
// from both names alone: `<workload>-<node>-<hash>`, what is before the hash cut so
// that it has at most 63 characters. The hash keeps `web` on `gpu-node-1` apart from
// `web-gpu` on `node-1`.
func NodeWorkloadName(workload, node string) string {
	// A slash is in no name, so that no two pairs have the same hash.
	return hashed(workload+"-"+node, workload+"/"+node)
}

// RevisionName is the name of the revision of a workload's template, which hash
// identifies.
func RevisionName(workload, hash string) string {
	most := maxNameLength - len(hash) - 1
	return strings.TrimRight(workload[:min(len(workload), most)], "-._") + "-" + hash
}

// LabelValue is a name as the value of a label, hashed when it is longer than a
// label's value may be.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return hashed(name, name)
}

// hashed is name, cut to 63 characters together with a hash of identity.
func hashed(name, identity string) string {
	sum := sha256.Sum256([]byte(identity))
	prefix := strings.TrimRight(name[:min(len(name), maxNameLength-hashLength-1)], "-._")
	return prefix + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
