// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// sleepHook is how long a sleep hook takes, in seconds.
const sleepHook = 1

// restartsAll is the exit code by which a container asks that all start over.
const restartsAll = 42

// state is what a preview is made of, and how long exec hooks take, by container.
type state struct {
	in     Input
	probes map[string]plan.ProbeResults
	hooks  map[string]time.Duration
	// asked are the images that the plan knows; where it does not the executor asks.
	asked plan.Images
}

func drawState(t *rapid.T) *state {
	before, after := drawPods(t)
	s := &state{hooks: map[string]time.Duration{}}
	s.in = Input{Pod: after, Observed: Running(before), Source: SourceRuntime, Now: time.Now()}
	s.in.Images = plan.Images{"i": "ref", "j": rapid.SampledFrom([]string{"", "ref"}).Draw(t, "presence of j")}
	if rapid.Bool().Draw(t, "the plan knows the images") {
		s.asked = s.in.Images
	}
	drawObserved(t, s.in.Observed)
	s.probes = drawProbes(t, s.in.Observed)
	for _, c := range s.in.Observed.Containers {
		s.hooks[c.Name] = time.Duration(rapid.SampledFrom([]int{500, 1900, 4200}).Draw(t, "hook of "+c.Name)) * time.Millisecond
	}
	switch rapid.SampledFrom([]string{"", "", "", "", "deleted", "misplaced", "deadline"}).Draw(t, "end") {
	case "deleted":
		after.DeletionTimestamp = &metav1.Time{Time: s.in.Now}
		after.DeletionGracePeriodSeconds = rapid.SampledFrom([]*int64{nil, new(int64(0)), new(int64(1)), new(int64(7))}).Draw(t, "deletion grace")
	case "misplaced":
		s.in.Misplaced = "the node does not match"
	case "deadline":
		after.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
		begun := metav1.NewTime(s.in.Now.Add(-time.Duration(rapid.SampledFrom([]int{59, 60}).Draw(t, "active")) * time.Second))
		s.in.Status = &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning, StartTime: &begun}
	}
	return s
}

// drawPods draws a pod and what becomes of it.
func drawPods(t *rapid.T) (before, after *corev1.Pod) {
	nw := &v1alpha1.NodeWorkload{}
	nw.Name, nw.UID = "w-n1", "u"
	draw := func(step string) *corev1.Pod {
		nw = nw.DeepCopy()
		spec := &nw.Spec.Template.Spec
		spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"Always", "Never", "OnFailure"}).Draw(t, step+" policy")
		spec.TerminationGracePeriodSeconds = ptr.To(rapid.Int64Range(0, 5).Draw(t, step+" grace"))
		spec.Hostname = rapid.SampledFrom([]string{"", "", "", "h"}).Draw(t, step+" hostname")
		spec.InitContainers, spec.Containers, spec.Volumes = nil, nil, drawImageVolume(t, step)
		for _, name := range []string{"s1", "s2"} {
			c := drawContainer(t, step, name)
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			spec.InitContainers = append(spec.InitContainers, c)
		}
		names := rapid.SampledFrom([]string{"a b", "a", "a c"}).Draw(t, step+" names")
		for name := range strings.FieldsSeq(names) {
			c := drawContainer(t, step, name)
			if rapid.IntRange(0, 2).Draw(t, step+" rule of "+name) == 0 {
				askForRestart(&c)
			}
			spec.Containers = append(spec.Containers, c)
		}
		return template.Pod(template.Of(nw))
	}
	return draw("before"), draw("after")
}

func drawImageVolume(t *rapid.T, step string) []corev1.Volume {
	source := &corev1.ImageVolumeSource{
		Reference:  rapid.SampledFrom([]string{"i", "i", "j"}).Draw(t, step+" image of the volume"),
		PullPolicy: rapid.SampledFrom([]corev1.PullPolicy{corev1.PullIfNotPresent, corev1.PullAlways}).Draw(t, step+" pull of the volume"),
	}
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: source}}}
}

func drawContainer(t *rapid.T, step, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: rapid.SampledFrom([]string{"i", "i", "j"}).Draw(t, step+" image of "+name)}
	c.ImagePullPolicy = rapid.SampledFrom([]corev1.PullPolicy{corev1.PullIfNotPresent, corev1.PullAlways}).Draw(t, step+" pull of "+name)
	if rapid.IntRange(0, 3).Draw(t, step+" mount of "+name) == 0 {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	switch rapid.SampledFrom([]string{"", "exec", "sleep"}).Draw(t, step+" hook of "+name) {
	case "exec":
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	case "sleep":
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: sleepHook}}}
	}
	if rapid.Bool().Draw(t, step+" probe of "+name) {
		c.LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: ptr.To(rapid.Int64Range(4, 6).Draw(t, step+" probe grace of "+name))}
	}
	if cpu := rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(t, step+" cpu of "+name); cpu != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	return c
}

// askForRestart adds a rule by which an exit starts the pod over.
func askForRestart(c *corev1.Container) {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{restartsAll},
		},
	}}
}

// drawObserved lets containers have exited, lose their state or not have started, and
// adds older instances, one without a template, and a sandbox that is not ready.
func drawObserved(t *rapid.T, observed *plan.PodStatus) {
	running, exited := plan.ContainerRunning, plan.ContainerExited
	for i := range observed.Containers {
		c := &observed.Containers[i]
		c.State = rapid.SampledFrom([]plan.ContainerState{
			running, running, running, running, exited, exited, plan.ContainerUnknown, plan.ContainerCreated,
		}).Draw(t, "state of "+c.Name)
		if c.State == exited {
			c.ExitCode = rapid.SampledFrom([]int32{0, 3, restartsAll, restartsAll}).Draw(t, "exit of "+c.Name)
		}
		if rapid.IntRange(0, 9).Draw(t, "older instance of "+c.Name) == 0 {
			older := *c
			older.ID, older.State, older.ExitCode = c.ID+"-older", running, 0
			observed.Containers = append(observed.Containers, older)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "foreign") == 0 {
		observed.Containers = append(observed.Containers, plan.ContainerStatus{ID: "foreign-id", Name: "foreign", State: running})
	}
	if rapid.IntRange(0, 9).Draw(t, "sandbox") == 0 {
		observed.Sandboxes[0].State = plan.SandboxNotReady
	}
}

func drawProbes(t *rapid.T, observed *plan.PodStatus) map[string]plan.ProbeResults {
	probes := map[string]plan.ProbeResults{}
	for _, c := range observed.Containers {
		if c.State != plan.ContainerRunning {
			continue
		}
		probes[c.ID] = plan.ProbeResults{
			Startup:  plan.ProbeSuccess,
			Liveness: rapid.SampledFrom([]plan.ProbeResult{plan.ProbeSuccess, plan.ProbeSuccess, plan.ProbeFailure}).Draw(t, "liveness of "+c.Name),
		}
	}
	return probes
}
