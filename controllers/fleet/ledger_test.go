// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestLedgerKeepsLastWords(t *testing.T) {
	done, stopping := v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	l := newLedger()
	first := managertest.NodeWorkload("n1", "mw", managertest.Kill("a", 1, stopping, ""))
	l.Observe(first)
	if l.AllGone("mw") {
		t.Error("allGone before the NodeWorkload is gone")
	}
	begun := l.Pending("mw", time.Time{})
	last := managertest.NodeWorkload("n1", "mw", managertest.Kill("a", 1, done, v1alpha1.KillOutcomeForced))
	l.Gone(last)
	l.Settled("mw", begun, managertest.Epoch) // the status that was written shows an earlier state
	if diff := cmp.Diff([]string{"n1/a Done Forced"}, describeKills(l.Pending("mw", time.Time{}).Records)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if !l.AllGone("mw") {
		t.Error("not allGone after the NodeWorkload is gone")
	}
	l.Settled("mw", l.Pending("mw", time.Time{}), managertest.Epoch.Add(time.Second))
	if got := l.Pending("mw", time.Time{}).Records; len(got) != 0 {
		t.Errorf("pending after it was written: %v", describeKills(got))
	}
	if got := l.LastWrite("mw"); !got.Equal(managertest.Epoch.Add(time.Second)) {
		t.Errorf("lastWrite = %s", got)
	}
}

func TestLedgerTakesEachRecordOnce(t *testing.T) {
	l := newLedger()
	old := managertest.NodeWorkload("n1", "mw", managertest.Kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful))
	l.Observe(old)
	l.Settled("mw", l.Pending("mw", time.Time{}), managertest.Epoch)
	nw := old.DeepCopy()
	nw.Status.Kills = append([]v1alpha1.KillRecord{managertest.Kill("b", 2, v1alpha1.KillPhaseStopping, "")}, nw.Status.Kills...)
	l.Observe(nw)
	l.Gone(nw)
	if diff := cmp.Diff([]string{"n1/b Stopping "}, describeKills(l.Pending("mw", time.Time{}).Records)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestLedgerLetsOrphansGo(t *testing.T) {
	l := newLedger()
	old := managertest.NodeWorkload("n1", "mw")
	l.Observe(old)
	l.Observe(managertest.NodeWorkload("n1", ""))
	if !l.AllGone("mw") {
		t.Error("an orphaned NodeWorkload still counts")
	}
	l.Gone(managertest.NodeWorkload("n2", ""))
	l.Observe(managertest.NodeWorkload("n3", "made again"))
	l.Forget(types.NamespacedName{Name: "web"}, "made again")
	if len(l.books) != 1 || l.books["made again"] == nil {
		t.Errorf("%d books left, want that of the object that is there", len(l.books))
	}
	l.Forget(types.NamespacedName{Name: "web"}, "")
	if len(l.books) != 0 {
		t.Errorf("%d books left", len(l.books))
	}
}

// A kill ends once: what a record says of it later is not reported again.
func TestLedgerReportsAnEndOnce(t *testing.T) {
	l := newLedger()
	old := managertest.NodeWorkload("n1", "mw", managertest.Kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
	l.Observe(old)
	l.Settled("mw", l.Pending("mw", time.Time{}), managertest.Epoch)
	shorter := old.DeepCopy()
	shorter.Status.Kills[0].Message = "the status was too large"
	l.Observe(shorter)
	if got := l.Pending("mw", time.Time{}).Records; len(got) != 0 {
		t.Errorf("pending: %v", describeKills(got))
	}
}
