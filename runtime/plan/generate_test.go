// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// drawInput draws a pod and what a runtime might report about it, sense or
// nonsense.
func drawInput(t *rapid.T) plan.Input {
	pod := drawPod(t)
	in := plan.Input{
		Differences:          plan.AllDifferences(),
		Pod:                  pod,
		Observed:             &plan.PodStatus{},
		Probes:               map[string]plan.ProbeResults{},
		Definitions:          plan.Define(pod),
		Actuated:             map[string]plan.Resources{},
		Prepared:             drawPrepared(t, pod),
		RestartAllContainers: rapid.IntRange(0, 9).Draw(t, "restartAll") == 0,
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "sandboxes") {
		in.Observed.Sandboxes = append(in.Observed.Sandboxes, drawSandbox(t, i, in))
	}
	names := append(namesOf(pod), "removed")
	for _, name := range names {
		for i := range rapid.IntRange(0, 2).Draw(t, "instances of "+name) {
			in.Observed.Containers = append(in.Observed.Containers, drawStatus(t, name, i, in))
		}
	}
	// Only the exit of an init or main container asks for it.
	in.RestartAllContainers = in.RestartAllContainers && slices.ContainsFunc(in.Observed.Containers, func(c plan.ContainerStatus) bool {
		for container := range podspec.InitAndMain(pod) {
			if container.Name == c.Name {
				return true
			}
		}
		return false
	})
	return in
}

// drawPrepared draws what has become of a pod's images.
func drawPrepared(t *rapid.T, pod *corev1.Pod) map[plan.ImageKey]plan.Preparation {
	prepared := map[plan.ImageKey]plan.Preparation{}
	for c := range podspec.InitAndMain(pod) {
		key := plan.ImageKeyOf(c)
		switch rapid.SampledFrom([]string{"there", "there", "not there", "failed"}).Draw(t, "image") {
		case "there":
			prepared[key] = plan.Preparation{Ref: "sha256:" + c.Image}
		case "failed":
			prepared[key] = plan.Preparation{Reason: plan.Reason{Reason: "ErrImagePull", Message: "no such image"}}
		}
	}
	return prepared
}

func drawPod(t *rapid.T) *corev1.Pod {
	policies := []corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}
	var names []string
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		names = append(names, fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"i", "s"}).Draw(t, "kind"), i))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "main containers") {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	pod := newPod(rapid.SampledFrom(policies).Draw(t, "policy"), names...)
	for _, name := range names {
		c := spec(plan.Input{Pod: pod}, name)
		drawProbesAndPolicy(t, c)
		c.Resources = drawResources(t).Requirements()
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			policies := []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}
			c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{
				ResourceName: r, RestartPolicy: rapid.SampledFrom(policies).Draw(t, "resize policy"),
			})
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "ephemeral container") == 0 {
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e0"}},
		}
	}
	return pod
}

func drawResources(t *rapid.T) plan.Resources {
	return plan.Resources{
		CPURequest: rapid.SampledFrom([]int64{0, 100}).Draw(t, "CPU request"), CPULimit: rapid.SampledFrom([]int64{0, 200}).Draw(t, "CPU limit"),
		MemoryLimit: rapid.SampledFrom([]int64{0, 1 << 20}).Draw(t, "memory limit"),
	}
}

func drawProbesAndPolicy(t *rapid.T, c *corev1.Container) {
	if rapid.Bool().Draw(t, "liveness probe") {
		c.LivenessProbe = &corev1.Probe{}
	}
	if rapid.Bool().Draw(t, "startup probe") {
		c.StartupProbe = &corev1.Probe{}
	}
	if c.RestartPolicy != nil || rapid.Bool().Draw(t, "the pod's policy") {
		return
	}
	policies := []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever,
	}
	if c.Name[0] == 'i' {
		policies = policies[1:]
	}
	c.RestartPolicy = new(rapid.SampledFrom(policies).Draw(t, "own policy"))
	if rapid.Bool().Draw(t, "rule") {
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
				Values:   []int32{42},
			},
		}}
	}
}

func drawSandbox(t *rapid.T, i int, in plan.Input) plan.SandboxStatus {
	states := []plan.SandboxState{plan.SandboxReady, plan.SandboxReady, plan.SandboxNotReady}
	hashes := []string{in.Definitions.Pod, in.Definitions.Pod, "", "v1:other"}
	return plan.SandboxStatus{
		ID:               fmt.Sprintf("sandbox-%d", i),
		State:            rapid.SampledFrom(states).Draw(t, "sandbox state"),
		Attempt:          uint32(5 - i),
		NetworkNamespace: rapid.SampledFrom([]string{"", "", plan.NetworkPod, plan.NetworkNode}).Draw(t, "sandbox network"),
		Hash:             rapid.SampledFrom(hashes).Draw(t, "sandbox definition"),
	}
}

// sandboxThatIsGone is one that the runtime does not list.
const sandboxThatIsGone = "sandbox-that-is-gone"

func drawStatus(t *rapid.T, name string, i int, in plan.Input) plan.ContainerStatus {
	states := []plan.ContainerState{
		plan.ContainerRunning, plan.ContainerExited, plan.ContainerCreated, plan.ContainerUnknown,
	}
	verdicts := []plan.ProbeResult{"", plan.ProbeSuccess, plan.ProbeFailure, plan.ProbeUnknown}
	hashes := []string{in.Definitions.Containers[name], in.Definitions.Containers[name], "", "v2:other"}
	s := plan.ContainerStatus{
		ID:       fmt.Sprintf("%s-%d", name, 9-i),
		Name:     name,
		State:    rapid.SampledFrom(states).Draw(t, "state"),
		ExitCode: rapid.SampledFrom([]int32{0, 1, 42}).Draw(t, "exit code"),
		Hash:     rapid.SampledFrom(hashes).Draw(t, "definition"),
	}
	sandboxes := []string{sandboxThatIsGone}
	for _, sandbox := range in.Observed.Sandboxes {
		sandboxes = append(sandboxes, sandbox.ID)
	}
	s.SandboxID = rapid.SampledFrom(sandboxes).Draw(t, "sandbox of the container")
	switch rapid.SampledFrom([]string{"as defined", "not known", "others", "resized"}).Draw(t, "resources") {
	case "as defined":
		if r, found := in.Definitions.Resources[name]; found {
			s.Recorded.Resources = &r
		}
	case "others":
		s.Recorded.Resources = new(drawResources(t))
	case "resized":
		in.Actuated[s.ID] = drawResources(t)
	}
	in.Probes[s.ID] = plan.ProbeResults{
		Liveness: rapid.SampledFrom(verdicts).Draw(t, "liveness"),
		Startup:  rapid.SampledFrom(verdicts).Draw(t, "startup"),
	}
	return s
}

func namesOf(pod *corev1.Pod) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}
