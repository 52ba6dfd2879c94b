// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// manySyncs is more than any pod of the generator needs to come to rest.
const manySyncs = 30

// TestMain looks at more pods than the default of 100: most are soon at rest, and
// one in a hundred shows a resize that is never made.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Whatever a runtime reports, a plan never starts a second instance, and after
// some syncs there is nothing left to do.
func TestPropertyConverges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := simulation{in: drawInput(t)}
		for range manySyncs {
			actions := plan.Compute(s.in)
			if actions.KillPod && !actions.CreateSandbox && len(actions.ContainersToReset) == 0 {
				// The end of the pod; the worker terminates it.
				return
			}
			if isIdle(actions) && !initializing(s.in) {
				if diff := cmp.Diff(actions, plan.Compute(s.in)); diff != "" {
					t.Fatalf("A second look differs:\n%s", diff)
				}
				checkOneInstanceEach(t, s.in)
				if plan.ResizeInProgress(s.in) {
					t.Error("At rest a container does not have the resources of its spec")
				}
				return
			}
			s.carryOut(t, actions)
			s.pull(actions.Waits)
			s.goOn()
		}
		t.Fatalf("No rest after %d syncs: %+v", manySyncs, plan.Compute(s.in))
	})
}

// A plan does not depend on the order in which a runtime lists containers of
// different names.
func TestPropertyOrderOfObservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		want := plan.Compute(in)
		order := rapid.Permutation(append(namesOf(in.Pod), "removed")).Draw(t, "order")
		in.Observed.Containers = slices.Clone(in.Observed.Containers)
		slices.SortStableFunc(in.Observed.Containers, func(a, b plan.ContainerStatus) int {
			return slices.Index(order, a.Name) - slices.Index(order, b.Name)
		})
		if diff := cmp.Diff(want, plan.Compute(in)); diff != "" {
			t.Errorf("Actions differ with the order of the list (-want +got):\n%s", diff)
		}
	})
}

// Kills come in the order of the spec, each container once, and with a reason;
// what is started exists.
func TestPropertyWellFormed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		actions := plan.Compute(in)
		seen := map[string]bool{}
		last, names := 0, namesOf(in.Pod)
		for _, k := range actions.ContainersToKill {
			if seen[k.ID] || k.Trigger == "" || k.Message == "" {
				t.Errorf("Kill %+v is a second one or has no reason", k)
			}
			seen[k.ID] = true
			at := slices.Index(names, k.Name)
			if k.Removed != (at < 0) {
				t.Errorf("Kill %+v of a container at %d of the spec", k, at)
			}
			if s := in.Observed.Current(k.Name); s.ID == k.ID && !k.Removed && s.SandboxID == actions.SandboxID {
				if at < last {
					t.Errorf("%s is killed after %s", k.Name, names[last])
				}
				last = at
			}
		}
		checkStarts(t, actions.InitContainersToStart, len(in.Pod.Spec.InitContainers))
		checkStarts(t, actions.ContainersToStart, len(in.Pod.Spec.Containers))
		if actions.KillPod != (actions.Trigger != "") || actions.CreateSandbox && !actions.KillPod {
			t.Errorf("Pod kill without a reason: %+v", actions)
		}
	})
}

// Nothing is killed that is not of the pod's making, and where a container is
// started no other instance of it is left that may run.
func TestPropertyOnlyOurs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		actions := plan.Compute(in)
		names, killed := namesOf(in.Pod), map[string]bool{}
		for _, k := range actions.ContainersToKill {
			killed[k.ID] = true
			i := slices.IndexFunc(in.Observed.Containers, func(c plan.ContainerStatus) bool { return c.ID == k.ID })
			if i < 0 {
				t.Fatalf("Kill %+v of what is not there", k)
			}
			if c := in.Observed.Containers[i]; c.Name != k.Name || c.Hash == "" && !slices.Contains(names, c.Name) {
				t.Errorf("Kill %+v of %+v, which no template made", k, c)
			}
		}
		if actions.KillPod {
			return
		}
		for _, c := range in.Observed.Containers {
			if c.State == plan.ContainerRunning && !killed[c.ID] && slices.Contains(startsOf(in, actions), c.Name) {
				t.Errorf("%s is started beside %s", c.Name, c.ID)
			}
		}
	})
}

// No main container is started before all init containers that are to end have completed in the
// sandbox that it is started in. What was created in it after one shows that it has.
func TestPropertyMainContainersWaitInTheirSandbox(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		actions := plan.Compute(in)
		if len(actions.ContainersToStart) == 0 {
			return
		}
		here := func(name string) *plan.ContainerStatus {
			s := in.Observed.Current(name)
			if s == nil || actions.CreateSandbox {
				return nil
			}
			if s.SandboxID == actions.SandboxID || s.SandboxID == sandboxThatIsGone && s.State == plan.ContainerRunning {
				return s
			}
			return nil
		}
		if slices.ContainsFunc(in.Pod.Spec.Containers, func(c corev1.Container) bool { return here(c.Name) != nil }) {
			return
		}
		inits := in.Pod.Spec.InitContainers
		for i, c := range inits {
			s := here(c.Name)
			if slices.ContainsFunc(inits[i+1:], func(later corev1.Container) bool { return here(later.Name) != nil }) {
				continue
			}
			if !podspec.IsSidecar(&c) && (s == nil || s.State != plan.ContainerExited || s.ExitCode != 0) {
				t.Errorf("%v are started, and %s has not completed in %q: %+v", startsOf(in, actions), c.Name, actions.SandboxID, s)
			}
		}
	})
}

// startsOf names the containers that a plan starts.
func startsOf(in plan.Input, a plan.Actions) []string {
	var names []string
	for _, i := range a.EphemeralContainersToStart {
		names = append(names, in.Pod.Spec.EphemeralContainers[i].Name)
	}
	for _, i := range a.InitContainersToStart {
		names = append(names, in.Pod.Spec.InitContainers[i].Name)
	}
	for _, i := range a.ContainersToStart {
		names = append(names, in.Pod.Spec.Containers[i].Name)
	}
	return names
}

func checkStarts(t *rapid.T, starts []int, n int) {
	t.Helper()
	if !slices.IsSorted(starts) || len(slices.Compact(slices.Clone(starts))) != len(starts) {
		t.Errorf("Starts %v are not in the order of the spec, each once", starts)
	}
	for _, i := range starts {
		if i < 0 || i >= n {
			t.Errorf("Start of container %d of %d", i, n)
		}
	}
}

func checkOneInstanceEach(t *rapid.T, in plan.Input) {
	t.Helper()
	running := map[string]string{}
	for _, c := range in.Observed.Containers {
		if c.State != plan.ContainerRunning {
			continue
		}
		if other, found := running[c.Name]; found && c.Name != "removed" {
			t.Errorf("At rest %s and %s run", other, c.ID)
		}
		running[c.Name] = c.ID
	}
}

func isIdle(a plan.Actions) bool {
	return !a.KillPod && !a.CreateSandbox && len(a.ContainersToKill) == 0 && len(a.ContainersToReset) == 0 &&
		len(a.EphemeralContainersToStart) == 0 && len(a.InitContainersToStart) == 0 && len(a.ContainersToStart) == 0 && !a.Resizes() && len(a.Waits) == 0
}

// initializing is whether the plan waits for an init container.
func initializing(in plan.Input) bool {
	for _, c := range in.Pod.Spec.InitContainers {
		status := in.Observed.Current(c.Name)
		if status != nil && status.State == plan.ContainerRunning &&
			(!podspec.IsSidecar(&c) || in.Probes[status.ID].Startup != plan.ProbeSuccess) {
			return true
		}
	}
	return false
}
