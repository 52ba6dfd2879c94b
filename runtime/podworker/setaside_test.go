// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A restored record whose continuation panics twice is set aside, which is said, and the
// container is killed without it.
func TestRecordThatPanicsIsSetAside(t *testing.T) {
	for _, deletedToo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			pod := template.Pod(workload("a"))
			state := Syncing
			if deletedToo {
				pod.DeletionTimestamp, state = &metav1.Time{Time: time.Now()}, Terminating
			}
			bad := v1alpha1.KillRecord{
				ID: "bad", Container: "c", ContainerID: "c-1", Trigger: v1alpha1.TriggerLivenessProbe, Phase: v1alpha1.KillPhasePreStop,
				Grace: v1alpha1.KillGrace{Seconds: 20, Source: v1alpha1.GraceSourceProbe}, StartTime: metav1.NowMicro(),
			}
			err := n.store.Save(&Checkpoint{
				Identity: Identity{UID: "a", Namespace: "ns", Name: "a"}, State: state, BootID: "boot", Pod: pod, Generation: 1,
				Status: v1alpha1.NodeWorkloadStatus{KillCount: 1, Kills: []v1alpha1.KillRecord{bad}},
			})
			if err != nil {
				t.Fatal(err)
			}
			n.pods["a"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{ID: "c-1", Name: "c", SandboxID: "s", State: plan.ContainerRunning}}}
			panics := 0
			trip := func(open []plan.KillProgress) {
				if slices.ContainsFunc(open, func(k plan.KillProgress) bool { return k.Record.ID == "bad" }) {
					panics++
					panic("a bug")
				}
			}
			n.resuming = func(context.Context) {
				n.mu.Lock()
				latest := n.resumed[len(n.resumed)-1:]
				n.mu.Unlock()
				trip(latest)
				n.exit("a", 137)
			}
			n.killing = func(_ context.Context, r plan.KillRequest) error {
				trip(r.Open)
				n.kill(r)
				return nil
			}
			n.start(t)
			n.settle(time.Minute)
			if panics != maxPanics {
				t.Errorf("deleted %t: %d panics, want %d", deletedToo, panics, maxPanics)
			}
			kills := n.published("a").Kills
			i := slices.IndexFunc(kills, sameID("bad"))
			if i < 0 || kills[i].Phase != v1alpha1.KillPhaseDone || kills[i].Outcome != "" || !strings.Contains(kills[i].Error, "panicked 2 times") {
				t.Errorf("deleted %t: kills %+v", deletedToo, kills)
			}
			if !slices.ContainsFunc(n.log(), func(c string) bool { return strings.HasPrefix(c, "event KillRecordSetAside: Container c") }) {
				t.Errorf("deleted %t: calls %q", deletedToo, n.log())
			}
			if deletedToo {
				if !n.did("release a") {
					t.Errorf("not released: %q", n.log())
				}
				return
			}
			last := n.resumed[len(n.resumed)-1].Record
			if last.ID == "bad" || last.ContainerID != "c-1" || last.Trigger != v1alpha1.TriggerLivenessProbe || last.Grace.Seconds != 20 || last.PreStop != nil {
				t.Errorf("killed by %+v", last)
			}
		})
	}
}
