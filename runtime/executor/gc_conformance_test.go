// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// gcVector is a line of gc.
type gcVector struct {
	recordings.GC[recordings.GCAnswer]
}

func TestConformanceGarbageCollection(t *testing.T) {
	eachVector(t, "gc", func(t *testing.T, v *gcVector, _ exclusions) {
		synctest.Test(t, func(t *testing.T) { replayGC(t, v) })
	})
}

func replayGC(t *testing.T, v *gcVector) {
	f, owners := v.runtime()
	e := newKubeletExecutor(f)
	err := e.CollectGarbage(t.Context(), GarbageOptions{
		List:                func(context.Context) (Garbage, error) { return f.garbage(owners), nil },
		ContentRemoved:      func(uid types.UID) bool { return v.Pods[string(uid)].ContentRemoved },
		RuntimeRemoved:      func(uid types.UID) bool { return v.Pods[string(uid)].RuntimeRemoved },
		EvictNonDeletedPods: v.EvictNonDeletedPods,
		AllKnown:            v.AllSourcesReady,
		Policy: GarbagePolicy{
			MinAge:             time.Duration(v.Policy.MinAgeSeconds * float64(time.Second)),
			MaxPerPodContainer: v.Policy.MaxPerPodContainer,
			MaxContainers:      v.Policy.MaxContainers,
		},
	})
	got := f.collected()
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
		fc := &fakeContainer{StopError: c.StopError, RemoveError: c.RemoveError}
		fc.ID, fc.Name, fc.SandboxID, fc.State = c.ID, c.Name, c.SandboxID, plan.ContainerState(c.State)
		fc.CreatedAt = time.Now().Add(-time.Duration(c.AgeSeconds * float64(time.Second)))
		fc.Recorded.TerminationGracePeriodSeconds = v.Pods[c.PodUID].GraceSeconds
		f.Containers, owners[c.ID] = append(f.Containers, fc), types.UID(c.PodUID)
	}
	for _, s := range v.Sandboxes {
		f.Sandboxes = append(f.Sandboxes, &fakeSandbox{StopError: s.StopError, SandboxStatus: plan.SandboxStatus{
			ID: s.ID, State: plan.SandboxState(s.State), CreatedAt: time.Now().Add(-time.Duration(s.AgeSeconds * float64(time.Second))),
		}})
		owners[s.ID] = types.UID(s.PodUID)
	}
	return f, owners
}

// garbage lists what is on the runtime.
func (f *fakeRuntime) garbage(owners map[string]types.UID) (g Garbage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.Containers {
		g.Containers = append(g.Containers, GarbageContainer{
			ID: c.ID, Name: c.Name, SandboxID: c.SandboxID, PodUID: owners[c.ID], State: c.State, CreatedAt: c.CreatedAt,
		})
	}
	for _, s := range f.Sandboxes {
		g.Sandboxes = append(g.Sandboxes, GarbageSandbox{
			ID: s.ID, PodUID: owners[s.ID], Ready: s.State == plan.SandboxReady, Attempt: s.Attempt, CreatedAt: s.CreatedAt,
		})
	}
	return g
}

// collected is what a collection did.
func (f *fakeRuntime) collected() recordings.GCAnswer {
	var containers, sandboxes []string
	for _, c := range f.Containers {
		containers = append(containers, c.ID)
	}
	for _, s := range f.Sandboxes {
		sandboxes = append(sandboxes, s.ID)
	}
	return recordings.Collected(f.Trace(), containers, sandboxes, "", "")
}

// checkGCOrder fails when a container was removed before it was killed, or a
// sandbox before its containers.
func checkGCOrder(t *testing.T, f *fakeRuntime) {
	t.Helper()
	removed, sandboxes := map[string]bool{}, false
	for _, e := range f.Trace() {
		switch e.Text("op") {
		case "RemoveContainer":
			removed[e.Text("id")] = true
			if sandboxes {
				t.Errorf("a container is removed after a sandbox: %v", e)
			}
		case "StopContainer":
			if removed[e.Text("id")] {
				t.Errorf("killed after it was removed: %v", e)
			}
		case "RemovePodSandbox":
			sandboxes = true
		}
	}
}
