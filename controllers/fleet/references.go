// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/objects"
)

// References are what a template refers to. They are shared by all Shares that refer to the
// same, and are not changed.
type References struct {
	Objects []objects.Ref
	Tokens  []objects.Token
	// ServiceAccount is the account of its tokens.
	ServiceAccount string
}

// watched are the objects and, where it asks for tokens, the account.
func (r *References) watched() []objects.Ref {
	if len(r.Tokens) == 0 {
		return r.Objects
	}
	return append(slices.Clone(r.Objects), objects.AccountRef(r.ServiceAccount))
}

var referenceSets = &shared[*References]{most: maxSets}

// maxEarlier bounds the earlier templates of a NodeWorkload that are remembered.
const maxEarlier = 4

// earlierThan are what the templates refer to of which something may still run: the last one that ran whole,
// and the latest of those since.
func (s *Share) earlierThan(before *Share) []*References {
	earlier := before.Earlier
	if before.Current() {
		earlier = nil
	}
	if before.Demands.References == s.Demands.References || slices.Contains(earlier, before.Demands.References) {
		return earlier
	}
	if len(earlier) == maxEarlier { // all but the one that ran whole, and the newest
		earlier = append(slices.Clone(earlier[:maxEarlier-2]), earlier[maxEarlier-1])
	}
	return append([]*References{before.Demands.References}, earlier...)
}

// allReferences are those of its template and of the earlier ones of which something may run.
func (s *Share) allReferences() []*References {
	return append([]*References{s.Demands.References}, s.Earlier...)
}

// watched are the objects and accounts of all its references.
func (s *Share) watched() map[objects.Key]bool {
	found := map[objects.Key]bool{}
	for _, refs := range s.allReferences() {
		for _, ref := range refs.watched() {
			found[objects.Key{Namespace: s.Namespace, Ref: ref}] = true
		}
	}
	return found
}

func references(spec *corev1.PodSpec) *References {
	refs := &References{Objects: objects.Of(spec), Tokens: objects.Tokens(spec), ServiceAccount: cmp.Or(spec.ServiceAccountName, "default")}
	return referenceSets.one(refs.key(), func() *References { return refs }).value
}

// key is the same for equal references only.
func (r *References) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", r.ServiceAccount)
	for _, ref := range r.Objects {
		fmt.Fprintf(&b, " %q %q", ref.Kind, ref.Name)
	}
	for _, token := range r.Tokens {
		fmt.Fprintf(&b, " %q %d", token.Audience, token.ExpirationSeconds)
	}
	return b.String()
}

// sameObjects reports whether two Shares of one object, either of which may be nil, make their
// nodes need the same objects.
func (s *Share) sameObjects(o *Share) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Node == o.Node && s.needsObjects() == o.needsObjects() &&
		(slices.Equal(s.allReferences(), o.allReferences()) || maps.Equal(s.watched(), o.watched()))
}

// needsObjects reports whether something may be started of what a NodeWorkload refers to, or runs.
func (s *Share) needsObjects() bool { return !s.Terminal() || s.Runs }

// References are the objects that the NodeWorkloads of a node refer to, and the service accounts of
// the tokens that they ask for, each once and in order. Those that are being deleted count: their containers still run. Those that have ended
// do not: no node needs to hold their Secrets.
func (x *Index) References(node string) []objects.Key {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := map[objects.Key]bool{}
	for _, s := range x.byNode[node] {
		if !s.needsObjects() {
			continue
		}
		maps.Copy(found, s.watched())
	}
	return slices.SortedFunc(maps.Keys(found), objects.CompareKeys)
}

// Tokens are those that the template of a NodeWorkload of a node asks for, and after them those of earlier
// templates of which something may run. None: the node has no such NodeWorkload.
func (x *Index) Tokens(node, namespace, name string) []objects.AccountTokens {
	s := x.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if s == nil || s.Node != node {
		return nil
	}
	var asked []objects.AccountTokens
	for _, refs := range s.allReferences() {
		asked = append(asked, objects.AccountTokens{Account: refs.ServiceAccount, Tokens: refs.Tokens})
	}
	return asked
}

// WorkloadOf is the ManagedWorkload of a NodeWorkload of a node. found is false where that node has no
// such NodeWorkload.
func (x *Index) WorkloadOf(node, namespace, name string) (workload string, found bool) {
	s := x.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if s == nil || s.Node != node {
		return "", false
	}
	if s.Controller.IsWorkload {
		workload = s.Controller.Name
	}
	return workload, true
}

// ListenReferences calls listener for each node whose References may have changed. It must not
// block.
func (x *Index) ListenReferences(listener func(node string)) {
	x.Listen(func(c Change) {
		if c.Old.sameObjects(c.New) {
			return
		}
		for _, node := range c.nodes() {
			listener(node)
		}
	})
}

// nodes are those of a Share before and after a change.
func (c Change) nodes() []string {
	var nodes []string
	for _, s := range []*Share{c.Old, c.New} {
		if s != nil && !slices.Contains(nodes, s.Node) {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}
