// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var (
	exitCodes    = []int32{0, 1, 2, 42, 137}
	images       = []string{"busybox", "nginx:1.27", "registry.example/app:v2"}
	recordedFrom = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// pod makes a pod.
func (d dice) pod(n int, resizes bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", n), Namespace: "ns1", UID: types.UID(fmt.Sprintf("uid-%d", n)),
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 pick(d, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever),
			TerminationGracePeriodSeconds: ptr.To[int64](30), SecurityContext: &corev1.PodSecurityContext{},
			HostNetwork: d.chance(10),
		},
	}
	if d.chance(8) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(recordedFrom.Add(time.Hour)))
		p.DeletionGracePeriodSeconds = ptr.To(pick[int64](d, 0, 5, 30))
	}
	for i := range pick(d, 0, 0, 0, 1, 1, 2, 2, 3, 3) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, d.initContainer(fmt.Sprintf("init%d", i), resizes))
	}
	for i := range pick(d, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4) {
		p.Spec.Containers = append(p.Spec.Containers, d.container(fmt.Sprintf("c%d", i), resizes))
	}
	if d.chance(14) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug0", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent,
			},
			TargetContainerName: pick(d, "", "c0"),
		}}
	}
	return p
}

func (d dice) container(name string, resizes bool) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(d, images...), ImagePullPolicy: corev1.PullIfNotPresent}
	if d.chance(24) {
		c.RestartPolicy = ptr.To(pick(d, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure,
			corev1.ContainerRestartPolicyNever))
		c.RestartPolicyRules = d.rules()
	}
	c.LivenessProbe, c.StartupProbe = d.probe(42), d.probe(31)
	if resizes {
		d.resources(&c)
	}
	return c
}

func (d dice) initContainer(name string, resizes bool) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(d, images...), ImagePullPolicy: corev1.PullIfNotPresent}
	switch {
	case d.chance(45):
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		c.LivenessProbe, c.StartupProbe = d.probe(42), d.probe(31)
	case d.chance(25):
		c.RestartPolicy = ptr.To(pick(d, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever))
		c.RestartPolicyRules = d.rules()
	}
	if resizes {
		d.resources(&c)
	}
	return c
}

func (d dice) rules() []corev1.ContainerRestartRule {
	var rules []corev1.ContainerRestartRule
	for range pick(d, 0, 1, 2) {
		values := some(d, 40, exitCodes)
		if len(values) == 0 {
			values = []int32{pick(d, exitCodes...)}
		}
		rules = append(rules, corev1.ContainerRestartRule{
			Action: pick(d, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestart,
				corev1.ContainerRestartRuleActionRestartAllContainers),
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: pick(d, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
				Values:   values,
			},
		})
	}
	return rules
}

func (d dice) probe(percent int) *corev1.Probe {
	if !d.chance(percent) {
		return nil
	}
	return &corev1.Probe{
		FailureThreshold: 3, PeriodSeconds: 10, TerminationGracePeriodSeconds: maybe[int64](d, 1, 5, 60),
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
	}
}

func (d dice) resources(c *corev1.Container) {
	if d.chance(20) {
		return
	}
	c.Resources = d.requirements([]string{"400m", "200m"}, []string{"256Mi", "128Mi"}, []string{"100m", "200m"}, []string{"64Mi", "128Mi"})
	if d.chance(60) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{
				ResourceName: name, RestartPolicy: pick(d, corev1.NotRequired, corev1.RestartContainer),
			})
		}
	}
}

func (d dice) requirements(cpuLimits, memoryLimits, cpuRequests, memoryRequests []string) corev1.ResourceRequirements {
	list := func(cpu, memory []string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if d.chance(95) {
			l[corev1.ResourceCPU] = resource.MustParse(pick(d, cpu...))
		}
		if d.chance(95) {
			l[corev1.ResourceMemory] = resource.MustParse(pick(d, memory...))
		}
		return l
	}
	return corev1.ResourceRequirements{Limits: list(cpuLimits, memoryLimits), Requests: list(cpuRequests, memoryRequests)}
}

// containersOf returns the init, main and ephemeral containers of a pod.
func containersOf(p *corev1.Pod) []corev1.Container {
	var all []corev1.Container
	all = append(append(all, p.Spec.InitContainers...), p.Spec.Containers...)
	for i := range p.Spec.EphemeralContainers {
		all = append(all, corev1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}
