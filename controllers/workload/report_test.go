// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// message is that of a condition.
func message(mw *v1alpha1.ManagedWorkload, kind string) string {
	if c := meta.FindStatusCondition(mw.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// A grace annotation that cannot be read is said at once, by an event and a condition,
// not only when it is too late.
func TestBadGraceIsSaidAtOnce(t *testing.T) {
	for _, value := range []string{"abc", "-3", "10s"} {
		t.Run(value, func(t *testing.T) {
			mw := workloadInMemory()
			mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: value}
			b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), mw, runningNodeWorkload("mw"))...)
			for _, wantEvents := range []int{1, 0} { // once
				_, got, err := b.reconcile()
				if err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("annotation %s: %q is not a number of seconds from 0 on; a deletion uses the template's grace period", v1alpha1.AnnotationDeletionGracePeriodSeconds, value)
				if text := message(got, v1alpha1.ConditionAccepted); !strings.Contains(text, want) || !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionReady) {
					t.Errorf("Accepted: %q, want %q", text, want)
				}
				if events := b.drain(eventBadAnnotation); len(events) != wantEvents || wantEvents == 1 && !strings.Contains(events[0], want) {
					t.Errorf("events %q, want %d", events, wantEvents)
				}
			}
		})
	}
}

// What is told of the grace period of a deletion is what its NodeWorkloads have.
func TestDeletionTellsTheGraceThatIsUsed(t *testing.T) {
	with := func(node string, template int64, deletion *int64) nodeView {
		return nodeView{name: node, shim: alive, share: &fleet.Share{Demands: &fleet.Demands{Grace: &template}, DeletionGrace: deletion}}
	}
	five, sixty := ptr.To[int64](5), ptr.To[int64](60)
	tests := map[string]struct {
		facts facts
		want  string
	}{
		"nothing asked":             {facts{leaving: []nodeView{with("n1", 30, nil)}}, "1 node left; the grace period is 30s"},
		"as asked":                  {facts{leaving: []nodeView{with("n1", 30, five)}, grace: five}, "1 node left; the grace period is 5s"},
		"0 counts as 1":             {facts{leaving: []nodeView{with("n1", 30, ptr.To[int64](0))}, grace: ptr.To[int64](0)}, "1 node left; the grace period is 1s"},
		"more than the template's":  {facts{leaving: []nodeView{with("n1", 30, ptr.To[int64](30))}, grace: sixty}, "1 node left; the grace period is 30s and can only be shortened (annotation: 60s)"},
		"more than was asked first": {facts{leaving: []nodeView{with("n1", 30, five)}, grace: sixty}, "1 node left; the grace period is 5s and can only be shortened (annotation: 60s)"},
		"bad after a good one":      {facts{leaving: []nodeView{with("n1", 30, five)}, graceProblem: "annotation a: bad"}, "1 node left; annotation a: bad; the grace period is 5s"},
		"not the same everywhere":   {facts{leaving: []nodeView{with("n1", 30, five), with("n2", 20, nil)}}, "2 nodes left; the grace period is 5s to 20s"},
		"nothing left":              {facts{graceProblem: "annotation a: bad"}, "0 nodes left"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.facts.deleting = true
			status, _, _ := computeStatus(&tc.facts, &v1alpha1.ManagedWorkloadStatus{})
			if got := message(&v1alpha1.ManagedWorkload{Status: status}, v1alpha1.ConditionReconciling); got != tc.want {
				t.Errorf("Reconciling: %q, want %q", got, tc.want)
			}
		})
	}
}

// A selector that matches no node is an event, once.
func TestNoMatchingNodesIsAnEvent(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, workloadInMemory())
	for _, want := range []int{1, 0} {
		if _, _, err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		if events := b.drain(v1alpha1.ReasonNoMatchingNodes); len(events) != want {
			t.Errorf("events %q, want %d", events, want)
		}
	}
}

// forcedKills counts all forced kills since the object exists: it does not fall when
// later kills push them out of recentKills, and a new manager continues it.
func TestForcedKillsOnlyGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(managertest.Epoch))
		b := newBench(t, interceptor.Funcs{}, workloadInMemory())
		n, shares := 0, map[string]*v1alpha1.NodeWorkload{}
		report := func(node string, count int, outcome v1alpha1.KillOutcome) {
			old := shares[node]
			nw := managertest.NodeWorkload(node, "mw")
			if old != nil {
				nw.Status.Kills = append(nw.Status.Kills, old.Status.Kills...)
			}
			for range count {
				n++
				time.Sleep(time.Second)
				k := managertest.Kill(fmt.Sprint("k", n), 0, v1alpha1.KillPhaseDone, outcome)
				k.StartTime, k.FinishTime = metav1.NowMicro(), new(metav1.NowMicro())
				nw.Status.Kills = append([]v1alpha1.KillRecord{k}, nw.Status.Kills...)
			}
			nw.Status.Kills = nw.Status.Kills[:min(len(nw.Status.Kills), 20)]
			b.fleet.Kills.Observe(nw)
			shares[node] = nw
		}
		expect := func(what string, want int32) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if _, mw, err := b.reconcile(); err != nil || mw.Status.ForcedKills != want {
				t.Errorf("%s: forcedKills %d, want %d (%v)", what, mw.Status.ForcedKills, want, err)
			}
		}
		report("n1", 3, v1alpha1.KillOutcomeForced)
		expect("three", 3)
		report("n2", 20, v1alpha1.KillOutcomeGraceful)
		expect("pushed out by graceful ones", 3)
		for i := range 5 {
			report(fmt.Sprint("m", i), 10, v1alpha1.KillOutcomeForced)
		}
		expect("50 at once", 53)
		next := newBench(t, interceptor.Funcs{})
		next.client, next.live = b.client, b.client // the manager restarts
		b = next
		for _, nw := range shares {
			b.fleet.Kills.Observe(nw)
		}
		expect("a new manager", 53)
		report("n1", 1, v1alpha1.KillOutcomeForced)
		expect("one more", 54)
	})
}
