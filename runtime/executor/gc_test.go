// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A dead container that was created in a time to come counts as the newest of its
// name: the others go, and it stays like any newest one, but not for good.
func TestGarbageCreatedInATimeToCome(t *testing.T) {
	tests := map[string]struct {
		ages        []time.Duration
		minAge      time.Duration
		wantRemoved []string
	}{
		"one alone stays":        {ages: []time.Duration{-time.Hour}},
		"it is the one to stay":  {ages: []time.Duration{time.Hour, -time.Hour}, wantRemoved: []string{"c0"}},
		"of two one stays":       {ages: []time.Duration{-2 * time.Hour, -time.Hour}, wantRemoved: []string{"c1"}},
		"it is younger than any": {ages: []time.Duration{time.Hour, 2 * time.Minute, -time.Hour, -2 * time.Hour}, minAge: time.Minute, wantRemoved: []string{"c0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, owners := newFakeRuntime(), map[string]types.UID{}
				for i, age := range test.ages {
					c := &fakeContainer{}
					c.ID, c.Name, c.State, c.CreatedAt = "c"+string(rune('0'+i)), "app", plan.ContainerExited, time.Now().Add(-age)
					f.Containers, owners[c.ID] = append(f.Containers, c), "uid"
				}
				err := newFakeExecutor(f).CollectGarbage(t.Context(), GarbageOptions{
					List:           func(context.Context) (Garbage, error) { return f.garbage(owners), nil },
					ContentRemoved: func(types.UID) bool { return false },
					Policy:         GarbagePolicy{MinAge: test.minAge, MaxPerPodContainer: 1, MaxContainers: -1},
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := f.collected().RemovedContainers; !slices.Equal(got, test.wantRemoved) {
					t.Errorf("removed %q, want %q", got, test.wantRemoved)
				}
			})
		})
	}
}

// A container whose state stays unknown is removed once the runtime reported that
// it was stopped, and not before.
func TestGarbageOfUnknownState(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(c *fakeContainer)
		want []string
	}{
		"seems to stop":     {func(c *fakeContainer) { c.RunsOn = true }, []string{"c1"}},
		"cannot be stopped": {func(c *fakeContainer) { c.StopError = "Unknown" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, owners := newFakeRuntime(), map[string]types.UID{}
				for i, state := range []plan.ContainerState{plan.ContainerExited, plan.ContainerUnknown} {
					c := &fakeContainer{}
					c.ID, c.Name, c.State, c.CreatedAt = "c"+string(rune('0'+i)), "app", state, time.Now().Add(-time.Duration(i)*time.Hour)
					test.edit(c)
					f.Containers, owners[c.ID] = append(f.Containers, c), "uid"
				}
				err := newFakeExecutor(f).CollectGarbage(t.Context(), GarbageOptions{
					List:           func(context.Context) (Garbage, error) { return f.garbage(owners), nil },
					ContentRemoved: func(types.UID) bool { return false },
					Policy:         DefaultGarbagePolicy(),
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := f.collected().RemovedContainers; !slices.Equal(got, test.want) {
					t.Errorf("removed %q, want %q", got, test.want)
				}
			})
		})
	}
}

// Of a pod's sandboxes the one with the greatest attempt is the newest, whatever the
// clock said when they were made.
func TestGarbageKeepsTheNewestSandboxAfterTheClockWasSetBack(t *testing.T) {
	f := newFakeRuntime()
	for i, age := range []time.Duration{0, time.Hour} {
		f.Sandboxes = append(f.Sandboxes, &fakeSandbox{SandboxStatus: plan.SandboxStatus{
			ID: fmt.Sprintf("sb%d", i), Attempt: uint32(i), State: plan.SandboxNotReady, CreatedAt: time.Now().Add(-age),
		}})
	}
	err := newFakeExecutor(f).CollectGarbage(t.Context(), GarbageOptions{
		List: func(context.Context) (Garbage, error) {
			return f.garbage(map[string]types.UID{"sb0": "uid", "sb1": "uid"}), nil
		},
		ContentRemoved: func(types.UID) bool { return false },
		Policy:         DefaultGarbagePolicy(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.collected().RemovedSandboxes; !slices.Equal(got, []string{"sb0"}) {
		t.Errorf("removed %q, want the first", got)
	}
}
