// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/hack/managertest"
)

// Two writers that look at the nodes of a workload at the same time do not both get a turn,
// and the next look shows what the last turn has written.
func TestTurns(t *testing.T) {
	t.Parallel()
	shims := NewShims("system")
	x := NewIndex(NewLedger(shims), shims)
	now := time.Now()
	show := func(version string) {
		nw := managertest.NodeWorkload("n1", "mw")
		nw.ResourceVersion = version
		x.Observe(nw)
	}
	show("10")
	one, two, other := x.Turn("mw", now), x.Turn("mw", now), x.Turn("other", now)
	if !x.Take(one) || x.Take(two) || !x.Take(other) {
		t.Fatal("not one of two that looked at the same time has the turn")
	}
	if x.Take(x.Turn("mw", now)) {
		t.Error("there are two turns at a time")
	}
	x.Leave(one, "20", now)
	if x.Take(two) {
		t.Error("a turn begins with a look from before another one wrote")
	}
	if x.Take(x.Turn("mw", now)) {
		t.Error("a turn begins before the index has what was written")
	}
	if late := x.Turn("mw", now.Add(turnPatience)); !x.Take(late) {
		t.Error("what the index never gets is waited for without end")
	} else {
		x.Leave(late, "", now)
	}
	show("20")
	three := x.Turn("mw", now)
	x.Wrote("mw", "30", now)
	if x.Take(three) {
		t.Error("a turn begins with a look from before something was written in none")
	}
	show("30")
	if four := x.Turn("mw", now); !x.Take(four) {
		t.Error("no turn begins although the index has all")
	} else {
		x.Leave(four, "", now)
	}
	x.Gone(managertest.NodeWorkload("n1", "mw"))
	if len(x.turns.of) != 1 {
		t.Errorf("turns of a workload without nodes are remembered: %v", x.turns.of)
	}
}
