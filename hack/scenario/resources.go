// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// sizes makes resources and changes them. Its numbers are its own: what else
// happens in the scenario of a seed does not depend on them.
func (g *generator) sizes() *generator {
	if g.resources == nil {
		g.resources = rand.New(rand.NewPCG(g.s.Seed, 37))
	}
	return &generator{Rand: g.resources, s: g.s, pod: g.pod, resources: g.resources, detailed: g.detailed}
}

// give gives some containers CPU and memory, with and without limits, and a
// policy for their changes.
func (g *generator) give(c *corev1.Container) {
	if !g.chance(40) {
		return
	}
	c.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	if g.chance(75) {
		c.Resources.Limits = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if g.chance(50) {
			policy := corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: pick(g, corev1.NotRequired, corev1.NotRequired, corev1.RestartContainer)}
			c.ResizePolicy = append(c.ResizePolicy, policy)
		}
	}
}

// givePod gives some pods CPU and memory as a whole, enough for what their containers have
// and may get. Its numbers are its own, too.
func (g *generator) givePod(spec *corev1.PodSpec) {
	g = &generator{Rand: rand.New(rand.NewPCG(g.s.Seed, 41)), s: g.s}
	if !g.chance(25) {
		return
	}
	r := &corev1.ResourceRequirements{}
	if g.chance(80) {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse(pick(g, "512Mi", "1Gi"))}
	}
	if r.Requests == nil || g.chance(60) {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(g, "2", "8")), corev1.ResourceMemory: resource.MustParse(pick(g, "1Gi", "4Gi"))}
	}
	spec.Resources = r
}

// prioritize gives some pods a priority class that every cluster has. Its numbers are its own, too.
func (g *generator) prioritize(spec *corev1.PodSpec) {
	g = &generator{Rand: rand.New(rand.NewPCG(g.s.Seed, 42)), s: g.s}
	switch g.IntN(8) {
	case 0:
		spec.PriorityClassName, spec.Priority = "system-node-critical", ptr.To[int32](2000001000)
	case 1:
		spec.PriorityClassName, spec.Priority = "system-cluster-critical", ptr.To[int32](2000000000)
	}
}

// resize changes the resources of some containers as a Pod's may be changed: a
// limit is neither added nor taken away, and plain init containers keep theirs.
// The least memory limit is below what a container uses; the whole pod's never is,
// for that is looked at by what keeps the pod's cgroup. Now and then it fails.
func (g *generator) resize() []Event {
	changed := false
	memory := []string{"64Mi", "128Mi", "256Mi"}
	if len(g.pod.Spec.Containers) > 1 {
		memory = append(memory, "32Mi")
	}
	for _, c := range g.allContainers() {
		if c.Resources.Requests == nil || g.plainInit(c) || !g.chance(60) {
			continue
		}
		changed = true
		if g.chance(50) {
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(pick(g, "50m", "100m", "200m"))
		}
		if g.chance(30) {
			c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(pick(g, "8Mi", "16Mi", "24Mi"))
		}
		if c.Resources.Limits != nil && g.chance(50) {
			c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(pick(g, "250m", "500m", "1"))
		}
		if c.Resources.Limits != nil && g.chance(50) {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(pick(g, memory...))
		}
	}
	if !changed {
		return nil
	}
	events := []Event{{Kind: Update, Pod: g.pod.DeepCopy()}}
	if g.chance(15) {
		events = append(events, Event{
			Kind: Fail, Method: "UpdateContainerResources", Container: pick(g, g.allContainers()...).Name,
			Error: pick(g, "Unknown", "Unavailable", "DeadlineExceeded", "NotFound"),
		})
	}
	return events
}

func (g *generator) plainInit(c *corev1.Container) bool {
	for i := range g.pod.Spec.InitContainers {
		if &g.pod.Spec.InitContainers[i] == c {
			return !isSidecar(c)
		}
	}
	return false
}
