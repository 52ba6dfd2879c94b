// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Each death of a container has the older dead ones of its name removed, once,
// and the first one has none.
func TestDeathRemovesOlderDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		for i, want := range [][]string{nil, {"c-2"}, {"c-2", "c-3"}} {
			n.exit("a", 1)
			p.Wake("a")
			n.settle(10 * time.Minute)
			if !slices.Equal(n.deaths, want) {
				t.Fatalf("after %d deaths: older ones removed for %q, want %q", i+1, n.deaths, want)
			}
		}
	})
}
