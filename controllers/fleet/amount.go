// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Amount is an amount of a node: CPU in thousandths of a core, memory in bytes.
type Amount struct{ MilliCPU, Memory int64 }

// Plus is the sum of both, at most what a number can say.
func (r Amount) Plus(o Amount) Amount {
	return Amount{sum(r.MilliCPU, o.MilliCPU), sum(r.Memory, o.Memory)}
}

func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Within reports whether o has room for it.
func (r Amount) Within(o Amount) bool { return r.MilliCPU <= o.MilliCPU && r.Memory <= o.Memory }

// AmountIn is what a list of resources has of CPU and memory.
func AmountIn(list corev1.ResourceList) Amount {
	return Amount{MilliCPU: max(list.Cpu().MilliValue(), 0), Memory: max(list.Memory().Value(), 0)}
}

// AtLeast has of each the larger one.
func (r Amount) AtLeast(o Amount) Amount {
	return Amount{max(r.MilliCPU, o.MilliCPU), max(r.Memory, o.Memory)}
}

// Terminal reports whether its containers have ended for good.
func (s *Share) Terminal() bool { return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed }

// SharesOn are the Shares of a node, the oldest first.
func (x *Index) SharesOn(node string) []*Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := make([]*Share, 0, len(x.byNode[node]))
	for _, s := range x.byNode[node] {
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b *Share) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found
}

// ListenAmounts calls listener for each node on which another amount may be requested, or
// another NodeWorkload has it, or says another thing about it. It must not block.
func (x *Index) ListenAmounts(listener func(node string)) {
	x.Listen(func(c Change) {
		if c.Old.sameAmount(c.New) {
			return
		}
		for _, node := range c.nodes() {
			listener(node)
		}
	})
}

// sameAmount reports whether two Shares of one object, either of which may be nil, request
// the same of the same node, and say the same about it.
func (s *Share) sameAmount(o *Share) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.UID == o.UID && s.Node == o.Node && s.Amount == o.Amount && s.Terminal() == o.Terminal() && s.Reserved.same(o.Reserved)
}
