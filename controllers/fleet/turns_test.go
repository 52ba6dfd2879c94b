// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
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
	// An etcd that was restored counts from earlier on: that costs one wait, not one each turn.
	x.Wrote("mw", "100000", now)
	x.Reset(&v1alpha1.NodeWorkloadList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []v1alpha1.NodeWorkload{*managertest.NodeWorkload("n1", "mw")}})
	now = now.Add(turnPatience)
	five := x.Turn("mw", now)
	if !x.Take(five) {
		t.Fatal("what was lost with an etcd is waited for without end")
	}
	x.Leave(five, "7", now)
	if x.Take(x.Turn("mw", now)) {
		t.Error("a turn begins before the index has what was written after the restore")
	}
	show("7")
	if six := x.Turn("mw", now); !x.Take(six) {
		t.Error("what was lost with an etcd is waited for again")
	} else {
		x.Leave(six, "", now)
	}
	x.Gone(managertest.NodeWorkload("n1", "mw"))
	if len(x.turns.of) != 1 {
		t.Errorf("turns of a workload without nodes are remembered: %v", x.turns.of)
	}
}
