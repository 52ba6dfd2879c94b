// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A clock that was set back makes no old instance the newest: nothing is started
// beside what runs, and what runs is not killed.
func TestNewestInstanceAfterTheClockWasSetBack(t *testing.T) {
	now := time.Now()
	for name, created := range map[string]time.Time{
		"created in a time to come": now.Add(time.Hour), "created later, it seems": now.Add(-time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			pod := newPod()
			sandbox := runSandbox(t, client, pod, 0)
			old := start(t, client, pod, &pod.Spec.Containers[0], sandbox, 0)
			if err := client.StopContainer(t.Context(), old, 1); err != nil {
				t.Fatal(err)
			}
			pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
			runs := start(t, client, pod, &pod.Spec.Containers[0], sandbox, 1)
			fake.set(func() {
				fake.containers[0].CreatedAt = created.UnixNano()
				fake.containers[1].CreatedAt = now.Add(-time.Hour).UnixNano()
			})
			observed := podStatus(t, client)
			if current := observed.Current("app"); current == nil || current.ID != runs {
				t.Errorf("current instance %+v, want %s", current, runs)
			}
			if first, second := observed.Containers[0].CreatedAt, observed.Containers[1].CreatedAt; !second.Before(first) {
				t.Errorf("created at %s and %s, want the older one first", second, first)
			}
			recorded, err := client.RecordedPod(t.Context(), "uid-1")
			if err != nil || *recorded.Spec.TerminationGracePeriodSeconds != 60 {
				t.Errorf("an orphan is killed by %+v (%v), want the newest instance's record", recorded, err)
			}
			actions := plan.Compute(plan.Input{Pod: pod, Observed: observed, Definitions: plan.Define(pod)})
			if actions.KillPod || len(actions.ContainersToStart) > 0 || len(actions.ContainersToKill) > 0 {
				t.Errorf("actions %+v, want none", actions)
			}
		})
	}
}

// Instances of a name come in the order of their restart counts and, as their
// times, newest first; where the clock was never set back nothing is changed.
func TestPropertyOrderOfInstances(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steady := rapid.Bool().Draw(rt, "the clock is never set back")
		var containers []plan.ContainerStatus
		for i := range rapid.IntRange(0, 8).Draw(rt, "containers") {
			created := int64(i)
			if !steady {
				created = rapid.Int64().Draw(rt, "created")
			}
			containers = append(containers, plan.ContainerStatus{
				Name: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name"), RestartCount: i, CreatedAt: time.Unix(0, created),
			})
		}
		want := slices.Clone(containers)
		slices.Reverse(want)
		got := rapid.Permutation(containers).Draw(rt, "listed")
		sortContainers(got)
		if diff := cmp.Diff(want, got); steady && diff != "" {
			rt.Errorf("(-want +got)\n%s", diff)
		}
		for i := range got {
			for j := range i {
				if got[j].CreatedAt.Before(got[i].CreatedAt) {
					rt.Errorf("%v is before %v", got[j], got[i])
				}
				if got[j].Name == got[i].Name && got[j].RestartCount < got[i].RestartCount {
					rt.Errorf("%v is newer than %v", got[j], got[i])
				}
			}
		}
	})
}
