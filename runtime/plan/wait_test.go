// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
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

// Whatever is observed, nothing is killed on purpose while an image is missing that it
// is to be started from, and what is not killed on purpose is killed with and without
// the difference.
func TestPropertyNoDeliberateKillWithoutImage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		with := plan.Compute(in)
		for _, k := range with.ContainersToKill {
			if isDeliberate(k.Trigger) && missing(in, k.Name) {
				t.Errorf("%s is killed (%s), and its image is not there", k.Name, k.Trigger)
			}
		}
		checkPodKill(t, in, with)
		if len(with.ContainersToReset) == 0 && !with.KillPod {
			checkStartsHaveImages(t, in, with)
		}
		in.Differences.PullBeforeKill = false
		without := plan.Compute(in)
		finished := with.Trigger == v1alpha1.TriggerWorkloadFinished && len(with.Waits) > 0 // by a probe of what waits
		if !without.Redefined && !finished {
			checkSameUnasked(t, with, without)
		}
		for name := range plan.ImagesInUse(in) {
			in.Prepared[name] = plan.Preparation{Ref: "sha256:there"}
		}
		in.Differences.PullBeforeKill = true
		checkPrepared(t, plan.Compute(in), without)
	})
}

func isDeliberate(trigger v1alpha1.KillTrigger) bool {
	return trigger == v1alpha1.TriggerDefinitionChanged || trigger == v1alpha1.TriggerRestartRequested || trigger == v1alpha1.TriggerResizeRequired
}

func missing(in plan.Input, name string) bool {
	return in.Prepared[plan.ImageKeyOf(spec(in, name))].Ref == ""
}

// checkPodKill: a pod that is killed for its definition, and in which something may run,
// has all images of what it starts at once.
func checkPodKill(t *rapid.T, in plan.Input, a plan.Actions) {
	t.Helper()
	runs := slices.ContainsFunc(in.Observed.Containers, func(c plan.ContainerStatus) bool {
		return c.State == plan.ContainerRunning || c.State == plan.ContainerUnknown
	})
	if !a.Redefined || !runs {
		return
	}
	for _, name := range startsOf(in, a) {
		if missing(in, name) {
			t.Errorf("The pod is killed for its definition, and the image of %s is not there", name)
		}
	}
}

// checkStartsHaveImages: no instance of another definition is replaced without its image.
func checkStartsHaveImages(t *rapid.T, in plan.Input, a plan.Actions) {
	t.Helper()
	for _, name := range startsOf(in, a) {
		s := in.Observed.Current(name)
		if s != nil && plan.DefinitionChanged(in.Definitions, s) && missing(in, name) {
			t.Errorf("%s is started in place of another definition, and its image is not there", name)
		}
	}
}

// checkSameUnasked: every kill that is not deliberate without the difference is one with
// it, and the other way round, but for those of containers that it kept.
func checkSameUnasked(t *rapid.T, with, without plan.Actions) {
	t.Helper()
	if with.KillPod != without.KillPod || with.Trigger != without.Trigger {
		t.Errorf("The pod is killed (%t %s), without the difference (%t %s)", with.KillPod, with.Trigger, without.KillPod, without.Trigger)
	}
	if diff := cmp.Diff(without.ContainersToReset, with.ContainersToReset); diff != "" {
		t.Errorf("Resets differ:\n%s", diff)
	}
	kept := func(k plan.Kill) bool { return isDeliberate(k.Trigger) || slices.Contains(with.Kept, k.Name) }
	if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(without.ContainersToKill), kept),
		slices.DeleteFunc(slices.Clone(with.ContainersToKill), kept), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Kills that are not deliberate differ (-without +with the difference):\n%s", diff)
	}
}

// checkPrepared: with all images there the difference changes nothing but what is said
// about images.
func checkPrepared(t *rapid.T, with, without plan.Actions) {
	t.Helper()
	if diff := cmp.Diff(without, with, cmpopts.IgnoreFields(plan.Actions{}, "Images"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("With all images there plans differ (-without +with the difference):\n%s", diff)
	}
}

func TestProbedPod(t *testing.T) {
	t.Parallel()
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
	}
	in := runningInput(corev1.RestartPolicyAlways, "a", "b")
	for _, c := range []string{"a", "b"} {
		spec(in, c).LivenessProbe, spec(in, c).ReadinessProbe = probe("/old"), probe("/old")
	}
	next := in.Pod.DeepCopy()
	for i := range next.Spec.Containers {
		c := &next.Spec.Containers[i]
		c.Image, c.LivenessProbe, c.ReadinessProbe = "next", probe("/new"), probe("/new")
	}
	for name, tt := range map[string]struct {
		previous            *corev1.Pod
		kept                []string
		liveness, readiness string // of container a
	}{
		"nothing waits":                      {in.Pod, nil, "/new", "/new"},
		"a waits":                            {in.Pod, []string{"a"}, "/old", "/old"},
		"b waits":                            {in.Pod, []string{"b"}, "/new", "/new"},
		"what it was made from is not known": {nil, []string{"a"}, "", "/new"},
		"it was made from another":           {next, []string{"a"}, "", "/new"},
	} {
		c := plan.ProbedPod(next, tt.previous, in.Observed, tt.kept).Spec.Containers[0]
		liveness := ""
		if c.LivenessProbe != nil {
			liveness = c.LivenessProbe.HTTPGet.Path
		}
		if liveness != tt.liveness || c.ReadinessProbe.HTTPGet.Path != tt.readiness {
			t.Errorf("%s: liveness %q, readiness %q", name, liveness, c.ReadinessProbe.HTTPGet.Path)
		}
	}
	if next.Spec.Containers[0].Image != "next" || next.Spec.Containers[0].LivenessProbe.HTTPGet.Path != "/new" {
		t.Error("The pod was changed")
	}
}

// What waits for another network is probed in the one that it is in.
func TestProbedPodIsInItsNetwork(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a")
	next := in.Pod.DeepCopy()
	next.Spec.HostNetwork = true
	if plan.ProbedPod(next, in.Pod, in.Observed, []string{"a"}).Spec.HostNetwork {
		t.Error("a container on the pod network is probed on the node's")
	}
	in.Observed.Sandboxes[0].NetworkNamespace = plan.NetworkNode
	if !plan.ProbedPod(in.Pod, next, in.Observed, []string{"a"}).Spec.HostNetwork {
		t.Error("a container on the node's network is probed on the pod's")
	}
}

// The kill that an old probe asks for has that probe's grace period.
func TestKillByProbeOfTheInstance(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyAlways, "a", "b")
	in.Differences = plan.AllDifferences()
	spec(in, "a").LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(7))}
	status(in, "a").Recorded.TerminationGracePeriodSeconds = new(int64(30))
	before := in.Pod.DeepCopy()
	spec(in, "a").LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(3))}
	another("a")(&in)
	in.Probed = before
	in.Probes["a-id"] = plan.ProbeResults{Liveness: plan.ProbeFailure}
	kills := plan.Compute(in).ContainersToKill
	if len(kills) != 1 || kills[0].Grace != (plan.Grace{Seconds: 7, Source: v1alpha1.GraceSourceProbe}) {
		t.Errorf("kills %+v", kills)
	}
}
