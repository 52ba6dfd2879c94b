// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// gcVector is a line of gc.
type gcVector struct {
	ID   string `json:"id"`
	Pods map[types.UID]struct {
		ContentRemoved bool   `json:"shouldPodContentBeRemoved"`
		RuntimeRemoved bool   `json:"shouldPodRuntimeBeRemoved"`
		GraceSeconds   *int64 `json:"terminationGracePeriodSeconds"`
	} `json:"pods"`
	Containers []struct {
		ID          string              `json:"id"`
		Name        string              `json:"name"`
		PodUID      types.UID           `json:"podUID"`
		SandboxID   string              `json:"sandboxID"`
		State       plan.ContainerState `json:"state"`
		AgeSeconds  float64             `json:"ageSeconds"`
		StopError   string              `json:"stopError"`
		RemoveError string              `json:"removeError"`
	} `json:"containers"`
	Sandboxes []struct {
		ID         string            `json:"id"`
		PodUID     types.UID         `json:"podUID"`
		State      plan.SandboxState `json:"state"`
		AgeSeconds float64           `json:"ageSeconds"`
		StopError  string            `json:"stopError"`
	} `json:"sandboxes"`
	Policy struct {
		MinAgeSeconds      float64 `json:"minAgeSeconds"`
		MaxPerPodContainer int     `json:"maxPerPodContainer"`
		MaxContainers      int     `json:"maxContainers"`
	} `json:"policy"`
	AllSourcesReady     bool     `json:"allSourcesReady"`
	EvictNonDeletedPods bool     `json:"evictNonDeletedPods"`
	Output              gcOutput `json:"output"`
}

type gcOutput struct {
	KilledBeforeRemoval []gcKill `json:"killedBeforeRemoval"`
	RemoveCalls         []string `json:"removeContainerCalls"`
	RemovedContainers   []string `json:"removedContainers"`
	StopSandboxCalls    []string `json:"stopSandboxCalls"`
	RemovedSandboxes    []string `json:"removedSandboxes"`
	RemainingContainers []string `json:"remainingContainers"`
	RemainingSandboxes  []string `json:"remainingSandboxes"`
	Errors              []string `json:"errors"`
}

type gcKill struct {
	ID      string  `json:"id"`
	Timeout float64 `json:"timeout"`
}

func TestConformanceGarbageCollection(t *testing.T) {
	eachVector(t, "gc.jsonl.gz", func(t *testing.T, v *gcVector, _ exclusions) {
		synctest.Test(t, func(t *testing.T) { replayGC(t, v) })
	})
}

func replayGC(t *testing.T, v *gcVector) {
	f, owners := v.runtime()
	e := newFakeExecutor(f)
	err := e.CollectGarbage(t.Context(), GarbageOptions{
		List:                func(context.Context) (Garbage, error) { return f.garbage(owners), nil },
		ContentRemoved:      func(uid types.UID) bool { return v.Pods[uid].ContentRemoved },
		RuntimeRemoved:      func(uid types.UID) bool { return v.Pods[uid].RuntimeRemoved },
		EvictNonDeletedPods: v.EvictNonDeletedPods,
		AllKnown:            v.AllSourcesReady,
		Policy: GarbagePolicy{
			MinAge:             time.Duration(v.Policy.MinAgeSeconds * float64(time.Second)),
			MaxPerPodContainer: v.Policy.MaxPerPodContainer,
			MaxContainers:      v.Policy.MaxContainers,
		},
	})
	got := f.gcOutput()
	if err != nil {
		got.Errors = []string{err.Error()}
	}
	diffLines(t, "output", v.Output, got)
	checkGCOrder(t, f)
	checkRecords(t, f)
}

// runtime builds the fake runtime of a vector, and says which pod a container or
// sandbox is of.
func (v *gcVector) runtime() (*fakeRuntime, map[string]types.UID) {
	f, owners := newFakeRuntime(), map[string]types.UID{}
	for _, c := range v.Containers {
		fc := &fakeContainer{stopError: c.StopError, removeError: c.RemoveError}
		fc.ID, fc.Name, fc.SandboxID, fc.State = c.ID, c.Name, c.SandboxID, c.State
		fc.CreatedAt = time.Now().Add(-time.Duration(c.AgeSeconds * float64(time.Second)))
		fc.Recorded.TerminationGracePeriodSeconds = v.Pods[c.PodUID].GraceSeconds
		f.containers, owners[c.ID] = append(f.containers, fc), c.PodUID
	}
	for _, s := range v.Sandboxes {
		f.sandboxes = append(f.sandboxes, &fakeSandbox{stopError: s.StopError, SandboxStatus: plan.SandboxStatus{
			ID: s.ID, State: s.State, CreatedAt: time.Now().Add(-time.Duration(s.AgeSeconds * float64(time.Second))),
		}})
		owners[s.ID] = s.PodUID
	}
	return f, owners
}

// garbage lists what is on the runtime.
func (f *fakeRuntime) garbage(owners map[string]types.UID) (g Garbage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		g.Containers = append(g.Containers, GarbageContainer{
			ID: c.ID, Name: c.Name, SandboxID: c.SandboxID, PodUID: owners[c.ID], State: c.State, CreatedAt: c.CreatedAt,
		})
	}
	for _, s := range f.sandboxes {
		g.Sandboxes = append(g.Sandboxes, GarbageSandbox{
			ID: s.ID, PodUID: owners[s.ID], Ready: s.State == plan.SandboxReady, CreatedAt: s.CreatedAt,
		})
	}
	return g
}

// gcOutput is what a collection did, sorted as the vectors are.
func (f *fakeRuntime) gcOutput() gcOutput {
	out := gcOutput{Errors: []string{"", ""}, KilledBeforeRemoval: []gcKill{}}
	for _, e := range f.ops("StopContainer") {
		out.KilledBeforeRemoval = append(out.KilledBeforeRemoval, gcKill{e.str("id"), e["timeout"].(float64)})
	}
	slices.SortFunc(out.KilledBeforeRemoval, func(a, b gcKill) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	ids := func(op, key string, all bool) []string {
		list := []string{}
		for _, e := range f.ops(op) {
			if all || e.str("error") == "" {
				list = append(list, e.str(key))
			}
		}
		slices.Sort(list)
		return list
	}
	out.RemoveCalls, out.RemovedContainers = ids("RemoveContainer", "id", true), ids("RemoveContainer", "id", false)
	out.StopSandboxCalls, out.RemovedSandboxes = ids("StopPodSandbox", "sandboxID", true), ids("RemovePodSandbox", "sandboxID", false)
	out.RemainingContainers, out.RemainingSandboxes = []string{}, []string{}
	for _, c := range f.containers {
		out.RemainingContainers = append(out.RemainingContainers, c.ID)
	}
	for _, s := range f.sandboxes {
		out.RemainingSandboxes = append(out.RemainingSandboxes, s.ID)
	}
	slices.Sort(out.RemainingContainers)
	slices.Sort(out.RemainingSandboxes)
	return out
}

// checkGCOrder fails when a container was removed before it was killed, or a
// sandbox before its containers.
func checkGCOrder(t *testing.T, f *fakeRuntime) {
	t.Helper()
	removed, sandboxes := map[string]bool{}, false
	for _, e := range f.trace {
		switch e.str("op") {
		case "RemoveContainer":
			removed[e.str("id")] = true
			if sandboxes {
				t.Errorf("a container is removed after a sandbox: %v", e)
			}
		case "StopContainer":
			if removed[e.str("id")] {
				t.Errorf("killed after it was removed: %v", e)
			}
		case "RemovePodSandbox":
			sandboxes = true
		}
	}
}
