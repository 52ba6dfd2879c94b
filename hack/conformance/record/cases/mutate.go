// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// mutate changes a pod and what is seen of it in a few places.
func (d dice) mutate(p *corev1.Pod, s *recordings.PodStatus) {
	for range 1 + d.IntN(5) {
		switch d.IntN(5) {
		case 0, 1:
			d.mutatePod(p)
		case 2:
			d.mutateSandboxes(p, s)
		default:
			d.mutateContainers(p, s)
		}
	}
	d.settle(p, s)
}

func (d dice) mutatePod(p *corev1.Pod) {
	fresh := d.pod(0, len(p.Spec.Containers) > 0 && len(p.Spec.Containers[0].ResizePolicy) > 0)
	switch d.IntN(8) {
	case 0:
		p.Spec.RestartPolicy = fresh.Spec.RestartPolicy
	case 1:
		p.Spec.HostNetwork = !p.Spec.HostNetwork
	case 2:
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = fresh.DeletionTimestamp, fresh.DeletionGracePeriodSeconds
	case 3:
		p.Spec.InitContainers = replaceOne(d, p.Spec.InitContainers, fresh.Spec.InitContainers, len(p.Spec.InitContainers)+1)
	case 4:
		p.Spec.EphemeralContainers = fresh.Spec.EphemeralContainers
	case 5:
		// One goes; what is seen of it stays.
		if n := len(p.Spec.InitContainers); n > 0 {
			p.Spec.InitContainers = slices.Delete(p.Spec.InitContainers, n-1, n)
		}
	default:
		p.Spec.Containers = replaceOne(d, p.Spec.Containers, fresh.Spec.Containers, len(p.Spec.Containers)+1)
	}
}

// replaceOne takes a container over from another pod, in the place of the one of
// its name or at the end.
func replaceOne(d dice, list, from []corev1.Container, limit int) []corev1.Container {
	if len(from) == 0 {
		return list
	}
	c := from[d.IntN(len(from))]
	for i := range list {
		if list[i].Name == c.Name {
			list[i] = c
			return list
		}
	}
	if len(list) >= limit || len(list) >= 4 {
		return list
	}
	return append(list, c)
}

func (d dice) mutateSandboxes(p *corev1.Pod, s *recordings.PodStatus) {
	if len(s.Sandboxes) == 0 || d.chance(30) {
		s.Sandboxes = d.sandboxes(p)
		return
	}
	box := &s.Sandboxes[d.IntN(len(s.Sandboxes))]
	switch d.IntN(4) {
	case 0:
		box.State = pick(d, "READY", "NOTREADY")
	case 1:
		box.NetworkNamespace = pick(d, "POD", "NODE")
	case 2:
		box.Network = pick(d, nil, &recordings.Network{AdditionalIPs: []string{}}, &recordings.Network{IP: "10.0.0.1", AdditionalIPs: []string{"fd00::1"}})
	default:
		// A newer one has a higher number.
		if len(s.Sandboxes) == 1 {
			box.Attempt = pick[uint32](d, 0, 1, 2, 5)
		}
	}
}

func (d dice) mutateContainers(p *corev1.Pod, s *recordings.PodStatus) {
	if len(s.Containers) == 0 || d.chance(20) {
		d.addInstances(p, s)
		return
	}
	i := d.IntN(len(s.Containers))
	c := &s.Containers[i]
	newest := !slices.ContainsFunc(s.Containers[:i], func(o recordings.Container) bool { return o.Name == c.Name })
	switch d.IntN(5) {
	case 0, 1:
		if newest {
			d.state(c)
		} else {
			d.exit(c)
		}
	case 2:
		if c.HashMatches != nil {
			other := !*c.HashMatches
			c.HashMatches = &other
		}
	case 3:
		s.Containers = slices.Delete(s.Containers, i, i+1)
	default:
		name := c.Name
		s.Containers = slices.DeleteFunc(s.Containers, func(o recordings.Container) bool { return o.Name == name })
	}
}

// addInstances adds all instances of a container of which nothing is seen.
func (d dice) addInstances(p *corev1.Pod, s *recordings.PodStatus) {
	for _, c := range containersOf(p) {
		seen := slices.ContainsFunc(s.Containers, func(o recordings.Container) bool { return o.Name == c.Name })
		if !seen {
			at := d.IntN(len(s.Containers) + 1)
			s.Containers = slices.Insert(s.Containers, at, d.instances(c.Name, c.Image, 1+d.IntN(3))...)
			return
		}
	}
}

// verdicts are a probe's results on what is seen.
func (d dice) verdicts(s *recordings.PodStatus, percent int) map[string]string {
	out := map[string]string{}
	for i := range s.Containers {
		if (s.Containers[i].State == "running" || d.chance(5)) && d.chance(percent) {
			out[s.Containers[i].ID] = pick(d, "success", "success", "failure", "unknown")
		}
	}
	return out
}

// NewPlan makes a case of plan-fuzz: one of the known with changes, or another one.
func NewPlan(seed uint64, n int, known []*Plan) *Plan {
	d := newDice(seed, uint64(n))
	c := &Plan{Gates: map[string]bool{}}
	if base := clone(known[d.IntN(len(known))]); d.chance(50) && ordinary(base) {
		c = base
		d.mutate(c.Pod, &c.PodStatus)
	} else {
		c.Pod = d.pod(n, d.chance(10))
		c.PodStatus = d.observed(c.Pod)
		c.RestartAllContainers = d.chance(4)
	}
	c.ID = fmt.Sprintf("plan-%d-%d", seed, n)
	if d.chance(70) || c.Probes.Liveness == nil || c.Probes.Startup == nil {
		c.Probes = recordings.Probes{Liveness: d.verdicts(&c.PodStatus, 60), Startup: d.verdicts(&c.PodStatus, 60)}
	}
	if d.chance(4) {
		c.RestartAllContainers = !c.RestartAllContainers
	}
	c.ActuatedContainerResources = d.actuated(c)
	return c
}

// ordinary is a case with the gates' defaults and no resources of a whole pod.
func ordinary(c *Plan) bool {
	return len(c.Gates) == 0 && c.Pod.Spec.Resources == nil && c.ActuatedPodResources == nil
}

// actuated are the resources of what runs.
func (d dice) actuated(c *Plan) map[string]corev1.ResourceRequirements {
	out := map[string]corev1.ResourceRequirements{}
	all := containersOf(c.Pod)
	for i := range c.PodStatus.Containers {
		for j := range all {
			if all[j].Name != c.PodStatus.Containers[i].Name || c.PodStatus.Containers[i].State != "running" {
				continue
			}
			switch {
			case all[j].Resources.Limits == nil && all[j].Resources.Requests == nil || d.chance(40):
				out[all[j].Name] = all[j].Resources
			case d.chance(95):
				out[all[j].Name] = d.requirements([]string{"400m", "200m", "300m"}, []string{"256Mi", "128Mi", "192Mi"},
					[]string{"200m", "100m", "150m"}, []string{"64Mi", "128Mi"})
			}
		}
	}
	return out
}

// NewRestart makes a case of restart-decision.
func NewRestart(seed uint64, n int, known []*Restart) *Restart {
	d := newDice(seed, uint64(n))
	c := clone(known[d.IntN(len(known))])
	if d.chance(50) {
		d.mutate(c.Pod, &c.PodStatus)
	} else {
		c.Pod = d.pod(n, false)
		c.PodStatus = d.observed(c.Pod)
	}
	c.ID = fmt.Sprintf("restart-%d-%d", seed, n)
	if d.chance(60) {
		c.APIPodStatus = d.apiStatus(c.Pod)
	}
	return c
}
