// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// decided is what a plan comes to: what ends, and what is started, by name.
type decided struct {
	Sandbox bool
	Kills   []string
	Starts  []string
	Ends    bool
}

func decide(in plan.Input) decided {
	a := plan.Compute(in)
	d := decided{Sandbox: a.CreateSandbox, Ends: a.KillPod && !a.CreateSandbox, Starts: startsOf(in, a)}
	for _, k := range a.ContainersToKill {
		d.Kills = append(d.Kills, k.ID)
	}
	return d
}

// moves has the newest instance of a container in a sandbox, in a state; "" removes it.
func moves(in plan.Input, name, sandbox string, state plan.ContainerState, exitCode int32) {
	for i := range in.Observed.Containers {
		s := &in.Observed.Containers[i]
		if s.Name != name {
			continue
		}
		if sandbox == "" {
			in.Observed.Containers = append(in.Observed.Containers[:i:i], in.Observed.Containers[i+1:]...)
			return
		}
		s.SandboxID, s.State, s.ExitCode, s.StartedAt = sandbox, state, exitCode, time.Unix(100, 0)
		return
	}
}

// instance is where the newest instance of a container is, and its state.
type instance struct {
	sandbox  string
	state    plan.ContainerState
	exitCode int32
}

const (
	wasCreated = plan.ContainerCreated
	nowRuns    = plan.ContainerRunning
	hasExited  = plan.ContainerExited
	isUnknown  = plan.ContainerUnknown
)

// in another sandbox than "sandbox", which is ready.
const older = "older"

// What init containers and main containers did in a sandbox that was replaced says nothing about
// this one. Without the difference the main container is started beside the first init container.
func TestInitContainersOfAnotherSandbox(t *testing.T) {
	t.Parallel()
	const here = "sandbox"
	tests := map[string]struct {
		names     []string
		instances map[string]instance
		want      decided
		kubelet   decided
	}{
		"the first init container runs, the main one was created in the sandbox before": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {here, nowRuns, 0}, "i2": {}, "a": {older, wasCreated, 0}},
			decided{}, decided{Starts: []string{"a"}},
		},
		"it has completed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {here, hasExited, 0}, "i2": {}, "a": {older, wasCreated, 0}},
			decided{Starts: []string{"i2"}}, decided{Starts: []string{"a"}},
		},
		"a later one that completed in the sandbox before was not removed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {here, nowRuns, 0}, "i2": {older, hasExited, 0}, "a": {older, hasExited, 255}},
			decided{}, decided{Starts: []string{"a"}},
		},
		"none ran yet, and none of the sandbox before was removed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {older, hasExited, 0}, "i2": {older, hasExited, 0}, "a": {older, hasExited, 255}},
			decided{Starts: []string{"i1"}}, decided{Starts: []string{"a"}},
		},
		"a sidecar runs, and the init container after it has still to run": {
			[]string{"s1", "i2", "a"},
			map[string]instance{"s1": {here, nowRuns, 0}, "i2": {}, "a": {older, wasCreated, 0}},
			decided{Starts: []string{"i2"}}, decided{Starts: []string{"a"}},
		},
		"one of unknown state died with its sandbox": {
			[]string{"i1", "a"},
			map[string]instance{"i1": {older, isUnknown, 0}, "a": {}},
			decided{Starts: []string{"i1"}}, decided{Kills: []string{"i1-id"}, Starts: []string{"i1"}},
		},
		"a main container that still runs in the sandbox before is killed first": {
			[]string{"i1", "a"},
			map[string]instance{"i1": {here, nowRuns, 0}, "a": {older, nowRuns, 0}},
			decided{Kills: []string{"a-id"}}, decided{},
		},
		"also when the init containers have completed": {
			[]string{"i1", "a"},
			map[string]instance{"i1": {here, hasExited, 0}, "a": {older, nowRuns, 0}},
			decided{Kills: []string{"a-id"}}, decided{},
		},
		"a main container that runs in a sandbox that is not listed is left alone": {
			[]string{"i1", "a"},
			map[string]instance{"i1": {here, hasExited, 0}, "a": {"not listed", nowRuns, 0}},
			decided{}, decided{},
		},
		"all have completed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {here, hasExited, 0}, "i2": {here, hasExited, 0}, "a": {older, hasExited, 255}},
			decided{Starts: []string{"a"}}, decided{Starts: []string{"a"}},
		},
		"the main container runs, and what completed before it was removed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {}, "i2": {}, "a": {here, nowRuns, 0}},
			decided{}, decided{},
		},
		"the main container has hasExited, and what completed before it was removed": {
			[]string{"i1", "i2", "a"},
			map[string]instance{"i1": {}, "i2": {}, "a": {here, hasExited, 1}},
			decided{Starts: []string{"a"}}, decided{Starts: []string{"i1"}},
		},
		"the same with a sidecar, which the main container waits for": {
			[]string{"i1", "s2", "a"},
			map[string]instance{"i1": {}, "s2": {}, "a": {here, hasExited, 1}},
			decided{Starts: []string{"s2"}}, decided{Starts: []string{"i1"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, tt.names...)
			in.Observed.Sandboxes = append(in.Observed.Sandboxes, plan.SandboxStatus{ID: older, State: plan.SandboxNotReady})
			for name, i := range tt.instances {
				moves(in, name, i.sandbox, i.state, i.exitCode)
			}
			if diff := cmp.Diff(tt.want, decide(in)); diff != "" {
				t.Errorf("Plan differs (-want +got):\n%s", diff)
			}
			in.Differences = plan.Differences{}
			if diff := cmp.Diff(tt.kubelet, decide(in)); diff != "" {
				t.Errorf("Without the difference the plan differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A sandbox that is lost before a main container ran is replaced also under Never. A container
// that ran is not run again, wherever its policy stands.
func TestSandboxLostUnderNever(t *testing.T) {
	t.Parallel()
	const here = "sandbox"
	again := func(names ...string) decided { return decided{Sandbox: true, Starts: names} }
	ends := decided{Ends: true}
	tests := map[string]struct {
		policy    corev1.RestartPolicy
		own       map[string]corev1.ContainerRestartPolicy
		names     []string
		instances map[string]instance
		want      decided
		kubelet   decided
	}{
		"the main container was created": {
			corev1.RestartPolicyNever, nil, []string{"a"},
			map[string]instance{"a": {here, wasCreated, 0}}, again("a"), ends,
		},
		"the init container has completed, and the main one was never made": {
			corev1.RestartPolicyNever, nil, []string{"i1", "a"},
			map[string]instance{"i1": {here, hasExited, 0}, "a": {}}, again("i1"), ends,
		},
		"an init container ended with the sandbox": {
			corev1.RestartPolicyNever, nil, []string{"i1", "i2", "a"},
			map[string]instance{"i1": {here, hasExited, 255}, "i2": {}, "a": {}}, again("i1"), ends,
		},
		"only a sidecar ran": {
			corev1.RestartPolicyNever, nil, []string{"s1", "a"},
			map[string]instance{"s1": {here, hasExited, 255}, "a": {}}, again("s1"), ends,
		},
		"the main container ran": {
			corev1.RestartPolicyNever, nil, []string{"i1", "a"},
			map[string]instance{"a": {here, hasExited, 255}}, ends, ends,
		},
		"the main container still runs": {
			corev1.RestartPolicyNever, nil, []string{"a"},
			map[string]instance{"a": {here, nowRuns, 0}}, ends, ends,
		},
		"its state is unknown": {
			corev1.RestartPolicyNever, nil, []string{"a"},
			map[string]instance{"a": {here, isUnknown, 0}}, ends, ends,
		},
		"one of two main containers ran": {
			corev1.RestartPolicyNever, nil, []string{"a", "b"},
			map[string]instance{"a": {here, hasExited, 0}, "b": {here, wasCreated, 0}}, again("b"), ends,
		},
		"a main container has a policy of its own": {
			corev1.RestartPolicyNever, map[string]corev1.ContainerRestartPolicy{"b": corev1.ContainerRestartPolicyAlways}, []string{"a", "b"},
			map[string]instance{"a": {here, hasExited, 0}, "b": {here, hasExited, 255}}, again("b"), ends,
		},
		"a main container that is never restarted has completed in a pod that is": {
			corev1.RestartPolicyAlways, map[string]corev1.ContainerRestartPolicy{"a": corev1.ContainerRestartPolicyNever}, []string{"a", "b"},
			map[string]instance{"a": {here, hasExited, 0}, "b": {here, hasExited, 0}}, again("b"), again("a", "b"),
		},
		"a main container has completed under OnFailure": {
			corev1.RestartPolicyOnFailure, nil, []string{"a", "b"},
			map[string]instance{"a": {here, hasExited, 0}, "b": {here, hasExited, 255}}, again("b"), again("b"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(tt.policy, tt.names...)
			in.Observed.Sandboxes[0].State = plan.SandboxNotReady
			for name, policy := range tt.own {
				spec(in, name).RestartPolicy = &policy
			}
			for name, i := range tt.instances {
				moves(in, name, i.sandbox, i.state, i.exitCode)
			}
			if diff := cmp.Diff(tt.want, decide(in)); diff != "" {
				t.Errorf("Plan differs (-want +got):\n%s", diff)
			}
			in.Differences = plan.Differences{}
			if diff := cmp.Diff(tt.kubelet, decide(in)); diff != "" {
				t.Errorf("Without the difference the plan differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A container that was seen to have exited, and that was removed over CRI, has ended as it did.
func TestExitedContainerThatWasRemoved(t *testing.T) {
	t.Parallel()
	const here = "sandbox"
	tests := map[string]struct {
		policy  corev1.RestartPolicy
		names   []string
		gone    map[string]instance
		all     bool // the sandbox, too
		want    decided
		kubelet decided
	}{
		"under Never": {
			corev1.RestartPolicyNever, []string{"a", "b"}, map[string]instance{"a": {here, hasExited, 1}}, false,
			decided{}, decided{Starts: []string{"a"}},
		},
		"under OnFailure, with success": {
			corev1.RestartPolicyOnFailure, []string{"a", "b"}, map[string]instance{"a": {here, hasExited, 0}}, false,
			decided{}, decided{Starts: []string{"a"}},
		},
		"under OnFailure, without": {
			corev1.RestartPolicyOnFailure, []string{"a", "b"}, map[string]instance{"a": {here, hasExited, 1}}, false,
			decided{Starts: []string{"a"}}, decided{Starts: []string{"a"}},
		},
		"under Always": {
			corev1.RestartPolicyAlways, []string{"a", "b"}, map[string]instance{"a": {here, hasExited, 0}}, false,
			decided{Starts: []string{"a"}}, decided{Starts: []string{"a"}},
		},
		"an init container of this sandbox": {
			corev1.RestartPolicyAlways, []string{"i1", "a"}, map[string]instance{"i1": {here, hasExited, 0}, "a": {}}, false,
			decided{Starts: []string{"a"}}, decided{Starts: []string{"i1"}},
		},
		"an init container of another sandbox": {
			corev1.RestartPolicyAlways, []string{"i1", "a"}, map[string]instance{"i1": {older, hasExited, 0}, "a": {}}, false,
			decided{Starts: []string{"i1"}}, decided{Starts: []string{"i1"}},
		},
		"an init container that failed": {
			corev1.RestartPolicyOnFailure, []string{"i1", "a"}, map[string]instance{"i1": {here, hasExited, 1}, "a": {}}, false,
			decided{Starts: []string{"i1"}}, decided{Starts: []string{"i1"}},
		},
		"with its sandbox, under Never": {
			corev1.RestartPolicyNever, []string{"a"}, map[string]instance{"a": {here, hasExited, 0}}, true,
			decided{Ends: true}, decided{Sandbox: true, Starts: []string{"a"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(tt.policy, tt.names...)
			for name, i := range tt.gone {
				if i.sandbox != "" {
					moves(in, name, i.sandbox, i.state, i.exitCode)
					in.Exits = in.Exits.Seen(in.Pod, in.Observed)
				}
				moves(in, name, "", "", 0)
			}
			if tt.all {
				in.Observed.Sandboxes = nil
			}
			if diff := cmp.Diff(tt.want, decide(in)); diff != "" {
				t.Errorf("Plan differs (-want +got):\n%s", diff)
			}
			in.Differences = plan.Differences{}
			if diff := cmp.Diff(tt.kubelet, decide(in)); diff != "" {
				t.Errorf("Without the difference the plan differs (-want +got):\n%s", diff)
			}
		})
	}
}

// An exit is known until another instance was seen that has not exited.
func TestExitsSeen(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyNever, "i1", "a")
	status(in, "i1").SandboxID, status(in, "a").SandboxID = "sandbox", "sandbox"
	var exits plan.Exits
	look := func(what string, want plan.Exits) {
		t.Helper()
		before, was := exits, maps.Clone(exits)
		exits = exits.Seen(in.Pod, in.Observed)
		if diff := cmp.Diff(want, exits); diff != "" {
			t.Errorf("%s: exits differ (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(was, before); diff != "" {
			t.Errorf("%s: the exits before were changed (-want +got):\n%s", what, diff)
		}
	}
	i1 := plan.Exit{ID: "i1-id", SandboxID: "sandbox"}
	look("the main container runs", plan.Exits{"i1": i1})
	status(in, "a").State, status(in, "a").ExitCode, status(in, "a").Reason = plan.ContainerExited, 3, "Error"
	both := plan.Exits{"i1": i1, "a": {ID: "a-id", SandboxID: "sandbox", ExitCode: 3, Reason: "Error"}}
	look("it has exited", both)
	removed := in.Observed.Containers
	in.Observed.Containers = nil
	look("both were removed", both)
	in.Observed.Containers = removed
	status(in, "a").State, status(in, "a").ID = plan.ContainerRunning, "a-2"
	look("another instance runs", plan.Exits{"i1": i1})
}

// The status of an object knows the ends of main containers.
func TestExitsByStatus(t *testing.T) {
	t.Parallel()
	ended := func(name, id string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: 2, Reason: "Error"},
		}}
	}
	st := &corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{ended("i1", "fake://i1-id")},
		ContainerStatuses: []corev1.ContainerStatus{
			ended("a", "fake://a-id"), ended("never-seen", ""), {Name: "b", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	}
	if diff := cmp.Diff(plan.Exits{"a": {ID: "a-id", ExitCode: 2, Reason: "Error"}}, plan.ExitsByStatus(st)); diff != "" {
		t.Errorf("Exits differ (-want +got):\n%s", diff)
	}
	st.Conditions = []corev1.PodCondition{{Type: corev1.AllContainersRestarting, Status: corev1.ConditionTrue}}
	if got := plan.ExitsByStatus(st); len(got) > 0 {
		t.Errorf("Exits %v of a pod whose containers all restart, want none", got)
	}
}
