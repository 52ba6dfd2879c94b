// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubelet "k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

func decidePlan(t *testing.T, c *cases.Plan) {
	defer setGates(t, c.Gates)()
	actuated := state.NewStateMemory(nil)
	for name, r := range c.ActuatedContainerResources {
		must(t, actuated.SetContainerResources(c.Pod.UID, name, r))
	}
	if c.ActuatedPodResources != nil {
		must(t, actuated.SetPodLevelResources(c.Pod.UID, c.ActuatedPodResources))
	}
	c.Actions = kuberuntime.RecordComputePodActions(t.Context(), kuberuntime.RecordedState{
		Liveness: cases.Verdicts(c.Probes.Liveness), Startup: cases.Verdicts(c.Probes.Startup), Actuated: actuated,
	}, c.Pod, cases.Kubelet(&c.PodStatus), c.RestartAllContainers)
}

// setGates sets feature gates; what it returns sets the defaults again.
func setGates(t *testing.T, gates map[string]bool) (reset func()) {
	gate := utilfeature.DefaultMutableFeatureGate
	defaults := map[string]bool{}
	for name, spec := range gate.GetAll() {
		if _, set := gates[string(name)]; set {
			defaults[string(name)] = spec.Default
		}
	}
	must(t, gate.SetFromMap(gates))
	return func() { must(t, gate.SetFromMap(defaults)) }
}

func decideGrace(t *testing.T, c *recordings.Grace) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: c.Deletion},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: c.Pod},
	}
	container := &corev1.Container{Name: "c", StartupProbe: probeOf(c.Startup), LivenessProbe: probeOf(c.Liveness)}
	c.Seconds = kuberuntime.RecordTerminationGracePeriod(t.Context(), pod, container, c.Reason)
}

func probeOf(g *recordings.ProbeGrace) *corev1.Probe {
	if g == nil {
		return nil
	}
	return &corev1.Probe{TerminationGracePeriodSeconds: g.Seconds}
}

func decideEffectiveGrace(_ *testing.T, c *recordings.EffectiveGrace) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: c.Deletion},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: c.Pod},
	}
	c.Seconds, c.Shortened = kubelet.RecordEffectiveGracePeriod(c.Current, pod, c.Override)
}

func decideStatus(t *testing.T, c *cases.Status) {
	reasons := map[string]kubelet.RecordedReason{}
	for name, r := range c.ReasonCache {
		reasons[name] = kubelet.RecordedReason(r)
	}
	r := kubelet.RecordStatus(t.Context(), c.Pod, cases.Kubelet(&c.PodStatus), reasons, cases.Verdicts(c.StartupResults), c.PodIsTerminal)
	generate := statuses(t, &r.Generate)
	generate["phase"], generate["reason"], generate["message"] = r.Generate.Phase, r.Generate.Reason, r.Generate.Message
	generate["qosClass"] = r.Generate.QOSClass
	conditions := []any{}
	for _, c := range r.Generate.Conditions {
		conditions = append(conditions, map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message})
	}
	generate["conditions"] = conditions
	c.Output = map[string]any{
		"convert": statuses(t, r.Convert, "ready"), "generate": generate, "phase": r.Phase,
		"hasAnyActiveRegularContainerStarted": r.MainsSeen,
	}
}

// statuses returns the statuses of containers without what the vectors leave out.
func statuses(t *testing.T, s *corev1.PodStatus, without ...string) map[string]any {
	out := map[string]any{}
	for name, list := range map[string][]corev1.ContainerStatus{
		"containerStatuses": s.ContainerStatuses, "initContainerStatuses": s.InitContainerStatuses,
		"ephemeralContainerStatuses": s.EphemeralContainerStatuses,
	} {
		kept := []any{}
		for i := range list {
			data, err := json.Marshal(&list[i])
			must(t, err)
			fields := map[string]any{}
			must(t, json.Unmarshal(data, &fields))
			for _, field := range append(without, "resources", "allocatedResources", "user", "volumeMounts") {
				delete(fields, field)
			}
			kept = append(kept, fields)
		}
		out[name] = kept
	}
	return out
}

func decideRestart(_ *testing.T, c *cases.Restart) {
	observed := cases.Kubelet(&c.PodStatus)
	containers := map[string]any{}
	for _, list := range [][]corev1.Container{c.Pod.Spec.InitContainers, c.Pod.Spec.Containers} {
		for i := range list {
			containers[list[i].Name] = map[string]any{
				"shouldContainerBeRestarted": kubecontainer.ShouldContainerBeRestarted(klog.Background(), &list[i], c.Pod, observed),
				"byExitCode":                 byExitCode(c.Pod, &list[i]),
			}
		}
	}
	c.Output = map[string]any{
		"containers":                         containers,
		"shouldAllContainersRestart":         kubecontainer.ShouldAllContainersRestart(c.Pod, observed, c.APIPodStatus),
		"shouldAllContainersRestartNoStatus": kubecontainer.ShouldAllContainersRestart(c.Pod, nil, c.APIPodStatus),
		"allContainersRestartCleanedUp":      kubecontainer.AllContainersRestartCleanedUp(c.Pod, observed),
		"allContainersCouldRestart":          podutil.AllContainersCouldRestart(&c.Pod.Spec),
	}
}

func byExitCode(pod *corev1.Pod, c *corev1.Container) map[string]any {
	out := map[string]any{}
	for _, code := range []int32{0, 1, 2, 42, 137} {
		rule, found := podutil.FindMatchingContainerRestartRule(*c, code)
		answer := map[string]any{
			"containerShouldRestart": podutil.ContainerShouldRestart(*c, pod.Spec, code), "ruleFound": found,
		}
		if found {
			answer["ruleAction"] = rule.Action
		}
		out[fmt.Sprint(code)] = answer
	}
	return out
}

func decideBackoff(t *testing.T, c *recordings.Backoff) {
	epoch := time.Unix(0, 0)
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	clock := clocktesting.NewFakeClock(epoch)
	expire := at(c.ExpireSeconds).Sub(epoch)
	backOff := flowcontrol.NewFakeBackOff(at(c.BaseSeconds).Sub(epoch), at(c.MaxSeconds).Sub(epoch), clock)
	backOff.HasExpiredFunc = func(now, last time.Time, _ time.Duration) bool { return now.Sub(last) > expire }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns1", UID: "uid-b"}}
	for i := range c.Steps {
		s := &c.Steps[i]
		container := &corev1.Container{Name: c.Container, Image: s.Image}
		pod.Spec.Containers = []corev1.Container{*container}
		clock.SetTime(at(s.Now))
		observed := &kubecontainer.PodStatus{}
		if s.CreatedFirst {
			observed.ContainerStatuses = append(observed.ContainerStatuses, &kubecontainer.Status{Name: c.Container, State: kubecontainer.ContainerStateCreated})
		}
		observed.ContainerStatuses = append(observed.ContainerStatuses, &kubecontainer.Status{
			Name: c.Container, State: kubecontainer.State(s.State), FinishedAt: at(s.FinishedAt),
		})
		recorded := &events{}
		var err error
		s.InBackOff, s.Message, err = kuberuntime.RecordDoBackOff(t.Context(), recorded, pod, container, observed, backOff)
		s.Error, s.Until, s.Events = "", nil, append([]recordings.Entry{}, recorded.list...)
		if err != nil {
			s.Error = err.Error()
			if b, ok := err.(*kubecontainer.BackoffError); ok {
				until := b.BackoffTime().Sub(epoch).Seconds()
				s.Until = &until
			}
		}
		s.BackoffSeconds = backOff.Get(kuberuntime.GetBackoffKey(pod, container)).Seconds()
		if s.GCAfter {
			backOff.GC()
		}
	}
}

// events keeps events in the format of the vectors.
type events struct {
	record.EventRecorderLogger
	list []recordings.Entry
}

func (e *events) WithLogger(klog.Logger) record.EventRecorderLogger { return e }

func (e *events) Eventf(object runtime.Object, eventtype, reason, message string, args ...any) {
	ref := object.(*corev1.ObjectReference)
	_, name, _ := strings.Cut(ref.FieldPath, "{")
	e.list = append(e.list, recordings.Entry{
		"op": "Event", "object": ref.Name, "container": strings.TrimSuffix(name, "}"), "fieldPath": ref.FieldPath,
		"type": eventtype, "reason": reason, "message": fmt.Sprintf(message, args...),
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
