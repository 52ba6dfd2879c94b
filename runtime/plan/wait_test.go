// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

var (
	errImagePull = plan.Reason{Reason: "ErrImagePull", Message: "no such image"}
	anotherPod   = func(in *plan.Input) { in.Definitions.Pod = "v1:new" }
	another      = func(names ...string) func(in *plan.Input) {
		return func(in *plan.Input) {
			for _, name := range names {
				in.Definitions.Containers[name] = "v2:new"
			}
		}
	}
)

// waiting is what a plan does about a change of which images are missing.
type waiting struct {
	kills, starts, waits, kept, held []string
	podKill                          bool
}

func waitingOf(in plan.Input, a plan.Actions) waiting {
	w := waiting{starts: startsOf(in, a), kept: a.Kept, podKill: a.KillPod}
	for _, k := range a.ContainersToKill {
		w.kills = append(w.kills, k.Name+" "+string(k.Trigger))
	}
	for _, wait := range a.Waits {
		w.waits = append(w.waits, wait.Container+" "+wait.Reason.Reason)
	}
	for _, h := range a.Held {
		w.held = append(w.held, h.Container+" "+h.Reason.Reason)
	}
	return w
}

func TestDeliberateChangesWaitForImages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		containers []string
		change     func(*plan.Input)
		// there are the containers whose images are prepared, failed those whose pulls
		// failed.
		there, failed []string
		want          waiting
	}{
		"a definition, nothing known of the image": {
			containers: []string{"a"}, change: another("a"),
			want: waiting{waits: []string{"a "}, kept: []string{"a"}},
		},
		"a definition, the pull failed": {
			containers: []string{"a"}, change: another("a"), failed: []string{"a"},
			want: waiting{waits: []string{"a ErrImagePull"}, kept: []string{"a"}},
		},
		"a definition, the image is there": {
			containers: []string{"a"}, change: another("a"), there: []string{"a"},
			want: waiting{kills: []string{"a DefinitionChanged"}, starts: []string{"a"}},
		},
		"each waits for its own": {
			containers: []string{"a", "b", "s"}, change: another("a", "b", "s"), there: []string{"b"}, failed: []string{"a"},
			want: waiting{kills: []string{"b DefinitionChanged"}, starts: []string{"b"}, waits: []string{"s ", "a ErrImagePull"}, kept: []string{"s", "a"}},
		},
		"a restart that is requested": {
			containers: []string{"a"}, change: func(in *plan.Input) { in.Definitions.RestartedAt = "now" },
			want: waiting{waits: []string{"a "}, kept: []string{"a"}},
		},
		"a resize that needs a restart": {
			containers: []string{"a"}, change: resizedWithRestart("a"),
			want: waiting{waits: []string{"a "}, kept: []string{"a"}},
		},
		"a probe does not wait; the start does": {
			containers: []string{"a", "b"}, failed: []string{"a"},
			change: func(in *plan.Input) {
				another("a")(in)
				in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
			},
			want: waiting{kills: []string{"a LivenessProbe"}, waits: []string{"a ErrImagePull"}, kept: []string{"a"}, held: []string{"a ErrImagePull"}},
		},
		"a probe of another container does not wait": {
			containers: []string{"a", "b"}, failed: []string{"a"},
			change: func(in *plan.Input) {
				another("a")(in)
				in.Probes["b-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
			},
			want: waiting{kills: []string{"b LivenessProbe"}, starts: []string{"b"}, waits: []string{"a ErrImagePull"}, kept: []string{"a"}},
		},
		"the old instance has exited": {
			containers: []string{"a"}, failed: []string{"a"}, change: func(in *plan.Input) {
				another("a")(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{waits: []string{"a ErrImagePull"}, held: []string{"a ErrImagePull"}},
		},
		"a crash of the present definition does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) { status(*in, "a").State = plan.ContainerExited },
			want: waiting{starts: []string{"a"}},
		},
		"a container that is new in the template does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) { in.Observed.Containers = nil },
			want: waiting{starts: []string{"a"}},
		},
		"an unknown state does not wait; the start does": {
			containers: []string{"a", "b"}, change: func(in *plan.Input) {
				another("a")(in)
				status(*in, "a").State = plan.ContainerUnknown
			},
			want: waiting{kills: []string{"a UnknownState"}, waits: []string{"a "}, held: []string{"a "}},
		},
		"a sandbox waits for all images, those of init containers too": {
			containers: []string{"i", "s", "a", "b"}, change: anotherPod, there: []string{"a", "s"}, failed: []string{"b"},
			want: waiting{waits: []string{"i ", "b ErrImagePull"}, kept: []string{"s", "a", "b"}},
		},
		"a sandbox whose images are there": {
			containers: []string{"i", "a"}, change: anotherPod, there: []string{"i", "a"},
			want: waiting{podKill: true, starts: []string{"i"}},
		},
		"a network mode waits like a definition": {
			containers: []string{"a"}, change: func(in *plan.Input) { in.Pod.Spec.HostNetwork = true },
			want: waiting{waits: []string{"a "}, kept: []string{"a"}},
		},
		"while a sandbox waits nothing is started or changed in it": {
			containers: []string{"a", "b", "c"}, there: []string{"a", "c"}, failed: []string{"b"}, change: func(in *plan.Input) {
				anotherPod(in)
				another("c")(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{waits: []string{"b ErrImagePull"}, kept: []string{"b", "c"}, held: []string{"a ErrImagePull"}},
		},
		"while a sandbox waits probes kill": {
			containers: []string{"a", "b"}, failed: []string{"a"}, there: []string{"b"}, change: func(in *plan.Input) {
				anotherPod(in)
				in.Probes["b-id"] = plan.ProbeResults{Startup: plan.ProbeFailure}
			},
			want: waiting{kills: []string{"b StartupProbe"}, waits: []string{"a ErrImagePull"}, kept: []string{"a", "b"}, held: []string{"b ErrImagePull"}},
		},
		"while a sandbox waits what the template lost runs": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				in.Observed.Containers = append(in.Observed.Containers, plan.ContainerStatus{ID: "old", Name: "old", State: plan.ContainerRunning, Hash: "v2:1"})
			},
			want: waiting{waits: []string{"a "}, kept: []string{"a"}},
		},
		"a sandbox in which only another's container runs does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				status(*in, "a").State = plan.ContainerExited
				in.Observed.Containers = append(in.Observed.Containers, plan.ContainerStatus{ID: "foreign", Name: "foreign", State: plan.ContainerRunning})
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
		"a sandbox does not wait for a container in unknown state, which is killed anyway": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				status(*in, "a").State = plan.ContainerUnknown
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
		"a sandbox in which nothing runs does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				status(*in, "a").State = plan.ContainerExited
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
		"a sandbox that broke does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				in.Observed.Sandboxes[0].State = plan.SandboxNotReady
			},
			want: waiting{podKill: true, starts: []string{"a"}},
		},
		"a cgroup that is gone does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				anotherPod(in)
				in.OutsideCgroup = true
			},
			want: waiting{podKill: true, waits: []string{"a "}, starts: []string{"a"}},
		},
		"what was removed from the template does not wait": {
			containers: []string{"a"}, change: func(in *plan.Input) {
				in.Observed.Containers = append(in.Observed.Containers, plan.ContainerStatus{ID: "old", Name: "old", State: plan.ContainerRunning, Hash: "v2:1"})
			},
			want: waiting{kills: []string{"old ContainerRemoved"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, tt.containers...)
			in.Differences = plan.AllDifferences()
			in.Prepared = map[plan.ImageKey]plan.Preparation{}
			for _, c := range tt.there {
				in.Prepared[plan.ImageKeyOf(spec(in, c))] = plan.Preparation{Ref: "sha256:" + c}
			}
			for _, c := range tt.failed {
				in.Prepared[plan.ImageKeyOf(spec(in, c))] = plan.Preparation{Reason: errImagePull}
			}
			tt.change(&in)
			got := waitingOf(in, plan.Compute(in))
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(waiting{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			in.Differences.PullBeforeKill = false
			if a := plan.Compute(in); len(a.Waits)+len(a.Kept)+len(a.Held) > 0 {
				t.Errorf("without the difference: waits %v, kept %v, held %v", a.Waits, a.Kept, a.Held)
			}
		})
	}
}

// resizedWithRestart gives a container other resources, by a restart.
func resizedWithRestart(name string) func(*plan.Input) {
	return func(in *plan.Input) {
		spec(*in, name).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		status(*in, name).Recorded.Resources = &plan.Resources{CPURequest: 100}
	}
}

// A container that waits keeps its resources: the changed ones are for the image that is
// not there.
func TestWaitingContainerIsNotResized(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Input){"its image": another("a"), "the images of its sandbox": anotherPod} {
		in := runningInput(corev1.RestartPolicyAlways, "a")
		in.Differences = plan.AllDifferences()
		status(in, "a").Recorded.Resources = &plan.Resources{CPURequest: 100}
		if a := plan.Compute(in); len(a.CPUToUpdate) != 1 {
			t.Fatalf("without a change of the definition: %v", a.CPUToUpdate)
		}
		change(&in)
		if a := plan.Compute(in); a.Resizes() {
			t.Errorf("waiting for %s, CPU is changed: %v", name, a.CPUToUpdate)
		}
	}
}

// What was pulled before the kill is what is started, whatever the policy says.
func TestStartUsesWhatWasPulled(t *testing.T) {
	t.Parallel()
	pulled := []plan.ImageNeed{{Container: "a", Image: "image-of-a", Use: plan.ImagePulled, Ref: "sha256:new"}}
	for name, tt := range map[string]struct {
		change func(*plan.Input)
		want   []plan.ImageNeed
	}{
		"after the kill": {another("a"), pulled},
		"in a new sandbox": {func(in *plan.Input) {
			anotherPod(in)
			status(*in, "a").SandboxID = "sandbox"
		}, pulled},
		"after a kill whose start failed": {func(in *plan.Input) {
			another("a")(in)
			status(*in, "a").State = plan.ContainerExited
		}, pulled},
		"in the new sandbox, after init containers": {func(in *plan.Input) {
			status(*in, "a").State, status(*in, "a").SandboxID = plan.ContainerExited, "old"
		}, pulled},
		"for a resize": {resizedWithRestart("a"), pulled},
		"not after a crash": {func(in *plan.Input) {
			status(*in, "a").State, status(*in, "a").SandboxID = plan.ContainerExited, "sandbox"
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := runningInput(corev1.RestartPolicyAlways, "a")
			in.Differences = plan.AllDifferences()
			spec(in, "a").ImagePullPolicy = corev1.PullAlways
			status(in, "a").SandboxID = "sandbox"
			in.Prepared = map[plan.ImageKey]plan.Preparation{{Image: "image-of-a", Policy: corev1.PullAlways}: {Ref: "sha256:new", Pulled: true}}
			tt.change(&in)
			a := plan.Compute(in)
			if diff := cmp.Diff(tt.want, a.Images); diff != "" || !slices.Equal(startsOf(in, a), []string{"a"}) {
				t.Errorf("starts %v, images (-want +got):\n%s", startsOf(in, a), diff)
			}
			in.Prepared[plan.ImageKeyOf(spec(in, "a"))] = plan.Preparation{Ref: "sha256:new"}
			if present := plan.Compute(in); present.Images != nil {
				t.Errorf("the image was present, and the start does not ask: %v", present.Images)
			}
			if got := len(plan.ImagesInUse(in)); got != len(tt.want) {
				t.Errorf("%d images in use, want %d", got, len(tt.want))
			}
		})
	}
}

// The image of another policy is another pull.
func TestPreparationIsForAPolicy(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a")
	in.Differences = plan.AllDifferences()
	spec(in, "a").ImagePullPolicy = corev1.PullAlways
	in.Prepared = map[plan.ImageKey]plan.Preparation{{Image: "image-of-a", Policy: corev1.PullIfNotPresent}: {Ref: "sha256:old"}}
	another("a")(&in)
	if a := plan.Compute(in); len(a.Waits) != 1 || len(a.ContainersToKill) > 0 {
		t.Errorf("waits %v, kills %v", a.Waits, a.ContainersToKill)
	}
}
