// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A kill that the runtime does not carry out is tried again and again, with a
// record of each attempt: only the last is shown, and what else happened stays.
func TestFailedAttemptsPushNothingOut(t *testing.T) {
	done, failed := v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeFailed
	attempt := func(i int, phase v1alpha1.KillPhase, outcome v1alpha1.KillOutcome) v1alpha1.KillRecord {
		r := kill(fmt.Sprint("try", i), 100+i, phase, outcome)
		r.ContainerID = "containerd://1"
		return r
	}
	recent := onNode("n1", kill("told", 1, done, v1alpha1.KillOutcomeForced))
	for i := range 30 {
		recent = mergeKills(recent, onNode("n2", attempt(i, v1alpha1.KillPhaseStopping, "")))
		recent = mergeKills(recent, onNode("n2", attempt(i, done, failed)))
	}
	other := attempt(40, done, failed)
	other.ContainerID = "containerd://2"
	recent = mergeKills(recent, onNode("n2", other))
	want := []string{"n2/try40 Done Failed", "n2/try29 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	recent = mergeKills(recent, onNode("n2", attempt(50, done, v1alpha1.KillOutcomeGraceful)))
	want = []string{"n2/try50 Done Graceful", "n2/try40 Done Failed", "n1/told Done Forced"}
	if diff := cmp.Diff(want, describeKills(recent)); diff != "" {
		t.Errorf("carried out at last (-want +got):\n%s", diff)
	}
}

// The last words of a NodeWorkload that is gone are in the manager's memory only:
// they do not wait for the 10 s.
func TestLastWordsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{}, workloadInMemory())
		expect := func(what string, want int) {
			t.Helper()
			if _, mw, err := b.reconcile(); err != nil || len(mw.Status.RecentKills) != want {
				t.Errorf("%s: %v, %d kills in the status, want %d", what, err, len(mw.Status.RecentKills), want)
			}
		}
		word := func(node, id string) *v1alpha1.NodeWorkload {
			nw := nodeWorkload(node, "mw", kill(id, 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
			nw.Status.Kills[0].FinishTime = &metav1.MicroTime{Time: time.Now()}
			return nw
		}
		b.kills.observe(nil, word("n1", "a"))
		expect("the first kill", 1)
		b.kills.observe(nil, word("n2", "b"))
		expect("one more within 10 s", 1)
		b.kills.gone(word("n2", "b"))
		expect("its NodeWorkload is gone", 2)
		b.kills.observe(nil, word("n3", "c"))
		expect("and another within 10 s", 2)
	})
}

// Reports about an object that is gone are not kept for ever.
func TestReportsOfForgottenObjectsAreDropped(t *testing.T) {
	b := newBench(t, interceptor.Funcs{})
	nw := nodeWorkload("n1", "gone", kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
	nw.Namespace = "default"
	for range 2 {
		b.kills.observe(nil, nw)
		b.kills.gone(nw)
		if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil || len(b.kills.books) != 0 {
			t.Errorf("%v, %d books left", err, len(b.kills.books))
		}
	}
}
