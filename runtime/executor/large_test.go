// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// most is how many kill records the API takes, and how many containers this pod has.
const most = 100

// A pod of 100 containers is started, restarted by a change of its template and deleted. As
// the kubelet does it, a change kills its containers one after another, and a deletion kills
// all at once. Every instance is killed once, and the status has all kills of the deletion.
func TestHundredContainers(t *testing.T) {
	const takes = time.Second
	synctest.Test(t, func(t *testing.T) {
		l := newPodLife(plan.AllDifferences())
		l.pod = testPod(30, func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
			pod.Spec.Containers = nil
			for i := range most {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "img:1"})
			}
		})
		made := l.f.Created
		l.f.Created = func(c *fakeContainer) {
			made(c)
			c.StopSeconds = takes.Seconds()
		}
		if out := l.sync(t.Context()); out.Err != nil || l.runningNow() != most {
			t.Fatalf("error %v, %d containers run", out.Err, l.runningNow())
		}

		l.pod = l.pod.DeepCopy()
		for i := range l.pod.Spec.Containers {
			l.pod.Spec.Containers[i].Env = []corev1.EnvVar{{Name: "CHANGED"}}
		}
		begun := time.Now()
		if out := l.sync(t.Context()); out.Err != nil || l.runningNow() != most {
			t.Fatalf("error %v, %d containers run", out.Err, l.runningNow())
		}
		if took := time.Since(begun); took > 2*takes {
			t.Errorf("the change took %v, want the %v of one kill", took, takes)
		}

		begun = time.Now()
		if _, err := l.e.KillPod(t.Context(), plan.KillRequest{
			Pod: l.pod, Observed: l.f.observed(), Trigger: v1alpha1.TriggerTermination, RequestedBy: plan.RequestedByShim,
		}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*takes || l.runningNow() != 0 {
			t.Errorf("the deletion took %v, want the %v of one kill; %d containers run", took, takes, l.runningNow())
		}
		l.checkKills(t)
	})
}

func (l *podLife) runningNow() (n int) {
	for _, c := range l.f.observed().Containers {
		if c.State == plan.ContainerRunning {
			n++
		}
	}
	return n
}

// checkKills looks at the kills of both causes: the calls, the records, and the list that a
// status has of them.
func (l *podLife) checkKills(t *testing.T) {
	t.Helper()
	stops, want := map[string]int{}, map[string]int{}
	for _, c := range l.f.Containers {
		want[c.ID] = 1
	}
	for _, e := range l.f.ops("StopContainer") {
		stops[e.Text("id")]++
	}
	if diff := cmp.Diff(want, stops); diff != "" {
		t.Errorf("stops of each instance differ (-want +got):\n%s", diff)
	}
	kills := map[v1alpha1.KillTrigger]int{}
	for _, rec := range l.lastRecordsOfInstances(t) {
		kills[rec.Trigger]++
	}
	if diff := cmp.Diff(map[v1alpha1.KillTrigger]int{v1alpha1.TriggerDefinitionChanged: most, v1alpha1.TriggerTermination: most}, kills); diff != "" {
		t.Errorf("kills of each cause differ (-want +got):\n%s", diff)
	}
	l.checkStatus(t)
}

// lastRecordsOfInstances are the records, of which every instance has one.
func (l *podLife) lastRecordsOfInstances(t *testing.T) []v1alpha1.KillRecord {
	t.Helper()
	records, instances := l.f.lastRecords(), map[string]bool{}
	for _, rec := range records {
		instances[rec.ContainerID] = true
		if rec.Phase != v1alpha1.KillPhaseDone || rec.Outcome != v1alpha1.KillOutcomeGraceful {
			t.Errorf("record %+v, want a graceful end", rec)
		}
	}
	if len(records) != len(instances) {
		t.Errorf("%d records of %d instances", len(records), len(instances))
	}
	return records
}

// checkStatus reports the kills to a status: the list is never longer than the API takes it,
// a kill under way is never dropped, and those of the deletion are there.
func (l *podLife) checkStatus(t *testing.T) {
	t.Helper()
	var kills []v1alpha1.KillRecord
	underWay := map[string]bool{}
	for _, p := range l.f.progress {
		kills = status.AddKill(kills, p.Record)
		underWay[p.Record.ID] = true
		if p.Record.Phase == v1alpha1.KillPhaseDone {
			delete(underWay, p.Record.ID)
		}
		if len(kills) > most {
			t.Fatalf("the status has %d records, the API takes %d", len(kills), most)
		}
		listed := map[string]bool{}
		for i := range kills {
			if kills[i].Phase != v1alpha1.KillPhaseDone {
				listed[kills[i].ID] = true
			}
		}
		if diff := cmp.Diff(underWay, listed); diff != "" {
			t.Fatalf("kills under way differ (-want +got):\n%s", diff)
		}
	}
	want, got := map[string]bool{}, map[string]bool{}
	for i := range l.pod.Spec.Containers {
		want[l.pod.Spec.Containers[i].Name] = true
	}
	for i := range kills {
		if kills[i].Trigger == v1alpha1.TriggerTermination {
			got[kills[i].Container] = true
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("the status has the deletion's kills of %d containers, want those of all %d", len(got), len(want))
	}
}
