// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

var (
	t0     = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	always = corev1.ContainerRestartPolicyAlways
)

// pod returns a pod with those main containers.
func pod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid", Generation: 3},
		Spec:       corev1.PodSpec{Containers: containers, RestartPolicy: corev1.RestartPolicyAlways},
	}
}

func withInit(p *corev1.Pod, containers ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = containers
	return p
}

func deleted(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: t0}
	return p
}

// observed returns a pod with a ready sandbox and those containers.
func observed(containers ...plan.ContainerStatus) *plan.PodStatus {
	status := &plan.PodStatus{
		IPs: []string{"10.0.0.9"},
		Sandboxes: []plan.SandboxStatus{{
			ID: "sandbox", State: plan.SandboxReady, NetworkNamespace: plan.NetworkPod,
			Network: &plan.SandboxNetwork{IP: "10.0.0.9"},
		}},
		Containers: containers,
	}
	for _, c := range containers {
		status.ActiveContainerIDs = append(status.ActiveContainerIDs, c.ID)
	}
	return status
}

func running(name string) plan.ContainerStatus {
	return plan.ContainerStatus{ID: name + "-0", Name: name, State: plan.ContainerRunning, CreatedAt: t0, StartedAt: t0}
}

func exited(name string, code int32) plan.ContainerStatus {
	return plan.ContainerStatus{ID: name + "-0", Name: name, State: plan.ContainerExited, ExitCode: code, CreatedAt: t0, StartedAt: t0}
}

func TestComputeReadiness(t *testing.T) {
	probe := &corev1.Probe{}
	readyPod := &corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	started := true
	// of returns the status of a pod that is ready with an instance of its container.
	of := func(id string, status corev1.ContainerStatus) *corev1.PodStatus {
		previous := readyPod.DeepCopy()
		status.Name, status.ContainerID = "c", "containerd://"+id
		previous.ContainerStatuses = []corev1.ContainerStatus{status}
		return previous
	}
	tests := map[string]struct {
		container                corev1.Container
		sidecar                  bool
		probes                   plan.ProbeResults
		previous                 *corev1.PodStatus
		agentStartedAt           time.Time
		asKubelet                bool
		state                    plan.ContainerState
		wantStarted, wantReady   bool
		wantReadyCondition       corev1.ConditionStatus
		wantReadyConditionReason string
	}{
		"without probes it is ready when it runs": {
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"created is neither": {
			state: plan.ContainerCreated, wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"a startup probe without a verdict holds it back": {
			container:          corev1.Container{StartupProbe: probe},
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"in the kubelet a startup probe without a worker does not": {
			container: corev1.Container{StartupProbe: probe}, asKubelet: true,
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"startup unknown": {
			container: corev1.Container{StartupProbe: probe}, probes: plan.ProbeResults{Startup: plan.ProbeUnknown},
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"startup passed": {
			container: corev1.Container{StartupProbe: probe}, probes: plan.ProbeResults{Startup: plan.ProbeSuccess},
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"had started under an earlier shim": {
			container:   corev1.Container{StartupProbe: probe},
			previous:    of("c-0", corev1.ContainerStatus{Started: &started}),
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"that an earlier instance had started counts for nothing": {
			container:          corev1.Container{StartupProbe: probe},
			previous:           of("other", corev1.ContainerStatus{Started: &started, Ready: true}),
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"had not started, and its probe is not known any more": {
			previous: of("c-0", corev1.ContainerStatus{
				Started: new(false), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}),
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"had not started because it did not run": {
			previous:    of("c-0", corev1.ContainerStatus{Started: new(false)}),
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"readiness without a verdict": {
			container: corev1.Container{ReadinessProbe: probe}, wantStarted: true,
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"readiness failed": {
			container: corev1.Container{ReadinessProbe: probe}, probes: plan.ProbeResults{Readiness: plan.ProbeFailure}, wantStarted: true,
			previous: of("c-0", corev1.ContainerStatus{Ready: true}), agentStartedAt: t0.Add(time.Minute),
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"readiness passed": {
			container: corev1.Container{ReadinessProbe: probe}, probes: plan.ProbeResults{Readiness: plan.ProbeSuccess},
			wantStarted: true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"a ready container stays ready after a restart of the shim": {
			container: corev1.Container{ReadinessProbe: probe}, previous: of("c-0", corev1.ContainerStatus{Ready: true}),
			agentStartedAt: t0.Add(time.Minute),
			wantStarted:    true, wantReady: true, wantReadyCondition: corev1.ConditionTrue,
		},
		"but not one that started with the shim": {
			container: corev1.Container{ReadinessProbe: probe}, previous: of("c-0", corev1.ContainerStatus{Ready: true}),
			agentStartedAt: t0.Add(10 * time.Second),
			wantStarted:    true, wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"readiness of the pod counts for no container": {
			container: corev1.Container{ReadinessProbe: probe}, previous: readyPod, agentStartedAt: t0.Add(time.Minute),
			wantStarted: true, wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"readiness of an earlier instance counts for nothing": {
			container: corev1.Container{ReadinessProbe: probe}, previous: of("other", corev1.ContainerStatus{Ready: true}),
			agentStartedAt: t0.Add(time.Minute),
			wantStarted:    true, wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
		"a sidecar's readiness counts": {
			container: corev1.Container{ReadinessProbe: probe}, sidecar: true, wantStarted: true,
			wantReadyCondition: corev1.ConditionFalse, wantReadyConditionReason: "ContainersNotReady",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			container := tc.container
			container.Name = "c"
			p := pod(container)
			seen := observed(running("c"))
			if tc.state != "" {
				seen.Containers[0].State = tc.state
			}
			if tc.sidecar {
				container.RestartPolicy = &always
				p = withInit(pod(corev1.Container{Name: "main"}), container)
				seen = observed(running("c"), running("main"))
			}
			st := Compute(Input{
				Pod: p, Observed: seen, Previous: tc.previous, RuntimeName: "containerd", Now: t0.Add(time.Hour),
				Probes:         map[string]plan.ProbeResults{"c-0": tc.probes},
				AgentStartedAt: tc.agentStartedAt, AsKubelet: tc.asKubelet,
			})
			got := statusByName(append(st.InitContainerStatuses, st.ContainerStatuses...), "c")
			if got.Started == nil || *got.Started != tc.wantStarted {
				t.Errorf("started = %v, want %v", got.Started, tc.wantStarted)
			}
			if got.Ready != tc.wantReady {
				t.Errorf("ready = %v, want %v", got.Ready, tc.wantReady)
			}
			condition := conditionByType(st.Conditions, corev1.PodReady)
			if condition.Status != tc.wantReadyCondition || condition.Reason != tc.wantReadyConditionReason {
				t.Errorf("condition Ready = %s %q, want %s %q", condition.Status, condition.Reason, tc.wantReadyCondition, tc.wantReadyConditionReason)
			}
		})
	}
}

// Containers in the sandbox that the shim does not manage are reported as long as they are there; nothing
// else depends on them.
func TestComputeForeignContainers(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	seen := observed(running("c"))
	alone := Compute(Input{Pod: p, Observed: seen, Now: t0})
	seen.Foreign = []plan.ForeignContainer{{ID: "1", Name: "shell"}, {ID: "2", Name: "top"}}
	st := Compute(Input{Pod: p, Observed: seen, Previous: &alone, Now: t0})
	c := conditionByType(st.Conditions, v1alpha1.ConditionForeignContainers)
	if c == nil || c.Status != corev1.ConditionTrue || !strings.HasSuffix(c.Message, ": shell (1), top (2)") {
		t.Fatalf("condition %+v", c)
	}
	nw := NodeWorkload(NodeWorkloadInput{Pod: p, Status: st, Now: t0})
	if i := conditionIndex(nw.Conditions, v1alpha1.ConditionForeignContainers); i < 0 {
		t.Errorf("conditions %+v", nw.Conditions)
	}
	seen.Foreign = nil
	if diff := cmp.Diff(alone, Compute(Input{Pod: p, Observed: seen, Previous: &st, Now: t0})); diff != "" {
		t.Errorf("once they are gone (-want +got):\n%s", diff)
	}
}

// What is to be known about the pod's place shows as long as it is so.
func TestComputePodDirConditions(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	seen := observed(running("c"))
	alone := Compute(Input{Pod: p, Observed: seen, Now: t0})
	conditions := []corev1.PodCondition{
		{Type: v1alpha1.ConditionVolumeSizePending, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonContentExceedsLimit, Message: "v"},
		{Type: v1alpha1.ConditionVolumesOutdated, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonFilesNotUpdated, Message: "o"},
		{Type: v1alpha1.ConditionPodCgroupMissing, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonCgroupMissing, Message: "c"},
	}
	st := Compute(Input{Pod: p, Observed: seen, Previous: &alone, Conditions: conditions, Now: t0})
	nw := NodeWorkload(NodeWorkloadInput{Pod: p, Status: st, Now: t0})
	for _, want := range conditions {
		i := conditionIndex(nw.Conditions, string(want.Type))
		if i < 0 || nw.Conditions[i].Reason != want.Reason || nw.Conditions[i].Message != want.Message {
			t.Errorf("no condition %s as given in %+v", want.Type, nw.Conditions)
		}
	}
	if diff := cmp.Diff(alone, Compute(Input{Pod: p, Observed: seen, Previous: &st, Now: t0})); diff != "" {
		t.Errorf("once it is over (-want +got):\n%s", diff)
	}
}

// One that bears our labels, and of which nothing was recorded, is not ours either.
func TestComputeForeignContainersWithLabels(t *testing.T) {
	recorded := func(c plan.ContainerStatus) plan.ContainerStatus {
		c.Hash = "h"
		return c
	}
	labelled := running("other")
	labelled.ID = "id-other"
	tests := map[string]struct {
		other plan.ContainerStatus
		want  string
	}{
		"labels alone":        {labelled, "other (id-other)"},
		"created by the shim": {recorded(labelled), ""},
		"in the template":     {running("c"), ""},
		"ended":               {exited("other", 0), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{Pod: pod(corev1.Container{Name: "c"}), Observed: observed(recorded(running("c")), tc.other), Now: t0})
			c := conditionByType(st.Conditions, v1alpha1.ConditionForeignContainers)
			if (c != nil) != (tc.want != "") || c != nil && !strings.HasSuffix(c.Message, ": "+tc.want) {
				t.Errorf("condition %+v, want one of %q", c, tc.want)
			}
		})
	}
}

func TestComputePhaseStays(t *testing.T) {
	c := corev1.Container{Name: "c"}
	never := pod(c)
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	tests := map[string]struct {
		pod                    *corev1.Pod
		observed               *plan.PodStatus
		previous               *corev1.PodStatus
		terminal               bool
		evicted                *plan.Termination
		wantPhase              corev1.PodPhase
		wantReason, wantDetail string
	}{
		"nothing yet": {pod: pod(c), wantPhase: corev1.PodPending},
		"running":     {pod: pod(c), observed: observed(running("c")), wantPhase: corev1.PodRunning},
		"failed stays failed although it runs": {
			pod: pod(c), observed: observed(running("c")),
			previous:  &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "why"},
			wantPhase: corev1.PodFailed, wantReason: "Evicted", wantDetail: "why",
		},
		"succeeded stays succeeded although the exit says otherwise": {
			pod: never, observed: observed(exited("c", 1)),
			previous:  &corev1.PodStatus{Phase: corev1.PodSucceeded, Reason: "kept only with the phase"},
			wantPhase: corev1.PodSucceeded,
		},
		"a reason goes with its phase": {
			pod: pod(c), observed: observed(running("c")),
			previous:  &corev1.PodStatus{Phase: corev1.PodPending, Reason: "Old", Message: "old"},
			wantPhase: corev1.PodRunning,
		},
		"exit 0 under Always is no success": {pod: pod(c), observed: observed(exited("c", 0)), wantPhase: corev1.PodRunning},
		"exit 0 of a terminal pod is":       {pod: pod(c), observed: observed(exited("c", 0)), terminal: true, wantPhase: corev1.PodSucceeded},
		"exit 1 of a terminal pod is not":   {pod: pod(c), observed: observed(exited("c", 1)), terminal: true, wantPhase: corev1.PodFailed},
		"evicted": {
			pod: pod(c), observed: observed(running("c")), evicted: &plan.Termination{Reason: "DeadlineExceeded", Message: "too long"},
			wantPhase: corev1.PodFailed, wantReason: "DeadlineExceeded", wantDetail: "too long",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{Pod: tc.pod, Observed: tc.observed, Previous: tc.previous, Terminal: tc.terminal, Ending: tc.evicted, Now: t0})
			want := []string{string(tc.wantPhase), tc.wantReason, tc.wantDetail}
			if diff := cmp.Diff(want, []string{string(st.Phase), st.Reason, st.Message}); diff != "" {
				t.Errorf("Phase, reason and message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeAddresses(t *testing.T) {
	c := corev1.Container{Name: "c"}
	onHost := pod(c)
	onHost.Spec.HostNetwork = true
	dead := &plan.PodStatus{Sandboxes: []plan.SandboxStatus{{State: plan.SandboxNotReady}}}
	bare := &plan.PodStatus{Sandboxes: []plan.SandboxStatus{{State: plan.SandboxReady}}}
	had := &corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}}}
	tests := map[string]struct {
		pod           *corev1.Pod
		observed      *plan.PodStatus
		previous      *corev1.PodStatus
		hostIPs       []string
		want, wantHst []string
	}{
		"of the sandbox":                       {pod: pod(c), observed: observed(), hostIPs: []string{"192.0.2.1"}, want: []string{"10.0.0.9"}, wantHst: []string{"192.0.2.1"}},
		"one of each family, the node's first": {pod: pod(c), observed: &plan.PodStatus{IPs: []string{"10.0.0.9", "10.0.0.10", "FD00::1"}}, hostIPs: []string{"2001:db8::1"}, want: []string{"fd00::1", "10.0.0.9"}, wantHst: []string{"2001:db8::1"}},
		"IPv4 first without a node":            {pod: pod(c), observed: &plan.PodStatus{IPs: []string{"fd00::1", "10.0.0.9"}}, want: []string{"10.0.0.9", "fd00::1"}},
		"kept when the sandbox is gone":        {pod: pod(c), observed: dead, previous: had, want: []string{"10.0.0.7"}},
		"not kept with a ready sandbox":        {pod: pod(c), observed: bare, previous: had},
		"of the host":                          {pod: onHost, observed: bare, hostIPs: []string{"192.0.2.1", "2001:db8::1", "192.0.2.9"}, want: []string{"192.0.2.1", "2001:db8::1"}, wantHst: []string{"192.0.2.1", "2001:db8::1"}},
		"of a host that became dual-stack":     {pod: onHost, observed: dead, previous: &corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}}, hostIPs: []string{"192.0.2.1", "2001:db8::1"}, want: []string{"192.0.2.1", "2001:db8::1"}, wantHst: []string{"192.0.2.1", "2001:db8::1"}},
		"of a host with one family":            {pod: onHost, observed: dead, previous: &corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "192.0.2.2"}}}, hostIPs: []string{"192.0.2.1"}, want: []string{"192.0.2.2"}, wantHst: []string{"192.0.2.1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{Pod: tc.pod, Observed: tc.observed, Previous: tc.previous, HostIPs: tc.hostIPs, Now: t0})
			if diff := cmp.Diff(tc.want, podIPStrings(st.PodIPs)); diff != "" {
				t.Errorf("Pod IPs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantHst, hostIPStrings(st.HostIPs)); diff != "" {
				t.Errorf("Host IPs (-want +got):\n%s", diff)
			}
			if len(tc.want) > 0 && st.PodIP != tc.want[0] {
				t.Errorf("podIP = %s, want %s", st.PodIP, tc.want[0])
			}
		})
	}
}

func TestComputeTimes(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	late := t0.Add(time.Hour + 123*time.Millisecond)
	first := Compute(Input{Pod: p, Observed: observed(), Now: t0.Add(5 * time.Millisecond)})
	if !first.StartTime.Time.Equal(t0) {
		t.Errorf("startTime = %s, want %s, without what is below a second", first.StartTime, t0)
	}
	before := first.DeepCopy()
	second := Compute(Input{Pod: p, Observed: observed(running("c")), Previous: &first, Now: late})
	if diff := cmp.Diff(before, &first); diff != "" {
		t.Errorf("Previous was changed (-before +after):\n%s", diff)
	}
	if !second.StartTime.Equal(first.StartTime) {
		t.Errorf("startTime moved to %s", second.StartTime)
	}
	want := map[corev1.PodConditionType]time.Time{
		corev1.PodReadyToStartContainers: t0,
		corev1.PodInitialized:            t0,
		corev1.PodScheduled:              t0,
		corev1.ContainersReady:           late.Truncate(time.Second),
		corev1.PodReady:                  late.Truncate(time.Second),
	}
	got := map[corev1.PodConditionType]time.Time{}
	for _, c := range second.Conditions {
		got[c.Type] = c.LastTransitionTime.Time
		if c.ObservedGeneration != p.Generation {
			t.Errorf("observedGeneration of %s = %d, want %d", c.Type, c.ObservedGeneration, p.Generation)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Transition times (-want +got):\n%s", diff)
	}
	third := Compute(Input{Pod: p, Observed: observed(running("c")), Previous: &second, Now: late.Add(time.Hour)})
	if diff := cmp.Diff(second, third); diff != "" {
		t.Errorf("A status without news differs (-before +after):\n%s", diff)
	}
}

func TestComputeTerminationMessages(t *testing.T) {
	long := exited("a", 1)
	long.Message = strings.Repeat("ä", maxTerminationMessages)
	st := Compute(Input{Pod: pod(corev1.Container{Name: "a"}, corev1.Container{Name: "b"}), Observed: observed(long), Now: t0})
	want := strings.Repeat("ä", maxTerminationMessages/4)
	if got := st.ContainerStatuses[0].State.Terminated.Message; got != want {
		t.Errorf("Message has %d bytes, want %d", len(got), len(want))
	}
	long.Message = "x" + long.Message
	st = Compute(Input{Pod: pod(corev1.Container{Name: "a"}), Observed: observed(long), Now: t0})
	// A cut inside a character takes the whole character.
	if got := len(st.ContainerStatuses[0].State.Terminated.Message); got != maxTerminationMessages-1 {
		t.Errorf("Message has %d bytes, want %d", got, maxTerminationMessages-1)
	}
}

func TestComputeReadinessGates(t *testing.T) {
	p := pod(corev1.Container{Name: "c"})
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/a"}, {ConditionType: "example.com/b"}}
	tests := map[string]struct {
		conditions  []corev1.PodCondition
		want        corev1.ConditionStatus
		wantMessage string
	}{
		"missing and False": {
			conditions:  []corev1.PodCondition{{Type: "example.com/b", Status: corev1.ConditionFalse}},
			want:        corev1.ConditionFalse,
			wantMessage: `corresponding condition of pod readiness gate "example.com/a" does not exist., the status of pod readiness gate "example.com/b" is not "True", but False`,
		},
		"True": {
			conditions: []corev1.PodCondition{{Type: "example.com/a", Status: corev1.ConditionTrue}, {Type: "example.com/b", Status: corev1.ConditionTrue}},
			want:       corev1.ConditionTrue,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := Compute(Input{Pod: p, Observed: observed(running("c")), Previous: &corev1.PodStatus{Conditions: tc.conditions}, Now: t0})
			got := conditionByType(st.Conditions, corev1.PodReady)
			if got.Status != tc.want || got.Message != tc.wantMessage {
				t.Errorf("Ready = %s %q, want %s %q", got.Status, got.Message, tc.want, tc.wantMessage)
			}
			if !isTrue(st.Conditions, corev1.ContainersReady) {
				t.Error("ContainersReady is not True")
			}
		})
	}
}

func TestSandboxUsable(t *testing.T) {
	ready := plan.SandboxStatus{State: plan.SandboxReady, NetworkNamespace: plan.NetworkPod, Network: &plan.SandboxNetwork{IP: "10.0.0.1"}}
	change := func(f func(*plan.SandboxStatus)) plan.SandboxStatus {
		s := ready
		f(&s)
		return s
	}
	tests := map[string]struct {
		sandboxes   []plan.SandboxStatus
		hostNetwork bool
		want        bool
	}{
		"none":                     {},
		"ready":                    {sandboxes: []plan.SandboxStatus{ready}, want: true},
		"an older one is ready":    {sandboxes: []plan.SandboxStatus{ready, ready}},
		"an older one is not":      {sandboxes: []plan.SandboxStatus{ready, {State: plan.SandboxNotReady}}, want: true},
		"newest not ready":         {sandboxes: []plan.SandboxStatus{{State: plan.SandboxNotReady}}},
		"no IP":                    {sandboxes: []plan.SandboxStatus{change(func(s *plan.SandboxStatus) { s.Network = &plan.SandboxNetwork{} })}},
		"no network status":        {sandboxes: []plan.SandboxStatus{change(func(s *plan.SandboxStatus) { s.Network = nil })}, want: true},
		"no mode reads as a pod's": {sandboxes: []plan.SandboxStatus{change(func(s *plan.SandboxStatus) { s.NetworkNamespace = "" })}, want: true},
		"node's network":           {sandboxes: []plan.SandboxStatus{change(func(s *plan.SandboxStatus) { s.NetworkNamespace = plan.NetworkNode })}},
		"node's network as wanted": {sandboxes: []plan.SandboxStatus{{State: plan.SandboxReady, NetworkNamespace: plan.NetworkNode}}, hostNetwork: true, want: true},
		"pod's network where the node's is wanted": {sandboxes: []plan.SandboxStatus{ready}, hostNetwork: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := pod()
			p.Spec.HostNetwork = tc.hostNetwork
			if got := sandboxUsable(p, &plan.PodStatus{Sandboxes: tc.sandboxes}); got != tc.want {
				t.Errorf("sandboxUsable = %v, want %v", got, tc.want)
			}
		})
	}
}
