// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Smaller yields scenarios that lack something of s, the biggest parts first.
func Smaller(s *Scenario) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		try := func(change func(*Scenario) bool) bool {
			c := s.clone()
			return !change(c) || yield(c)
		}
		for i := range s.Steps {
			if !try(func(c *Scenario) bool { c.Steps = slices.Delete(c.Steps, i, i+1); return true }) {
				return
			}
		}
		for i := range s.Steps {
			for j := range s.Steps[i].Events {
				if !try(func(c *Scenario) bool {
					c.Steps[i].Events = slices.Delete(c.Steps[i].Events, j, j+1)
					return true
				}) {
					return
				}
			}
		}
		for _, name := range names(s.Pod) {
			for _, change := range []func(*Scenario, string) bool{dropContainer, dropLifecycle, dropProbes, dropPolicy, dropResources, calmScript} {
				if !try(func(c *Scenario) bool { return change(c, name) }) {
					return
				}
			}
		}
	}
}

func (s *Scenario) clone() *Scenario {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	c := &Scenario{}
	if err := json.Unmarshal(data, c); err != nil {
		panic(err)
	}
	return c
}

func names(pod *corev1.Pod) []string {
	var out []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, list[i].Name)
		}
	}
	return out
}

// everyPod calls change for each template of a scenario.
func (s *Scenario) everyPod(change func(*corev1.Pod) bool) bool {
	changed := change(s.Pod)
	for i := range s.Steps {
		for j := range s.Steps[i].Events {
			if pod := s.Steps[i].Events[j].Pod; pod != nil {
				changed = change(pod) || changed
			}
		}
	}
	return changed
}

func dropContainer(s *Scenario, name string) bool {
	drop := func(c corev1.Container) bool { return c.Name == name }
	if len(s.Pod.Spec.Containers) == 1 && s.Pod.Spec.Containers[0].Name == name {
		return false
	}
	s.everyPod(func(pod *corev1.Pod) bool {
		pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, drop)
		pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, drop)
		return true
	})
	delete(s.Scripts, name)
	for i := range s.Steps {
		s.Steps[i].Events = slices.DeleteFunc(s.Steps[i].Events, func(e Event) bool { return e.Container == name })
	}
	return true
}

func everyContainer(s *Scenario, name string, change func(*corev1.Container) bool) bool {
	return s.everyPod(func(pod *corev1.Pod) bool {
		changed := false
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if list[i].Name == name {
					changed = change(&list[i]) || changed
				}
			}
		}
		return changed
	})
}

func dropLifecycle(s *Scenario, name string) bool {
	return everyContainer(s, name, func(c *corev1.Container) bool {
		had := c.Lifecycle != nil
		c.Lifecycle = nil
		return had
	})
}

func dropProbes(s *Scenario, name string) bool {
	return everyContainer(s, name, func(c *corev1.Container) bool {
		had := c.LivenessProbe != nil || c.StartupProbe != nil
		c.LivenessProbe, c.StartupProbe = nil, nil
		return had
	})
}

func dropPolicy(s *Scenario, name string) bool {
	return everyContainer(s, name, func(c *corev1.Container) bool {
		had := len(c.RestartPolicyRules) > 0
		c.RestartPolicyRules = nil
		return had
	})
}

func dropResources(s *Scenario, name string) bool {
	return everyContainer(s, name, func(c *corev1.Container) bool {
		had := len(c.Resources.Requests) > 0
		c.Resources, c.ResizePolicy = corev1.ResourceRequirements{}, nil
		return had
	})
}

func calmScript(s *Scenario, name string) bool {
	script := s.Scripts[name]
	if script == nil || (script.StopSeconds == 0 && len(script.Runs) == 0) {
		return false
	}
	s.Scripts[name] = &Script{}
	return true
}
