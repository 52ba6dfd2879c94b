// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// steps makes the steps: a start, a middle with events, and mostly an end.
func (g *generator) steps() {
	for range 1 + g.IntN(4) {
		g.step(pick[float64](g, 0, 1, 1, 2))
	}
	for range 3 + g.IntN(8) {
		s := g.step(pick[float64](g, 1, 1, 2, 5, 11, 21, 61, 301, 700))
		for range pick(g, 0, 1, 1, 2) {
			s.Events = append(s.Events, g.event())
		}
		if sizes := g.sizes(); sizes.chance(25) {
			s.Events = append(s.Events, sizes.resize()...)
		}
		s.Events = append(s.Events, g.details().more()...)
		switch g.IntN(20) {
		case 0, 1:
			s.Do = GC
			s.idempotent()
		case 2:
			s.Do = Restart
		}
	}
	if g.chance(60) {
		g.end()
	}
}

// idempotent takes away what CRI forbids: a sandbox that is gone has been stopped.
// Only of a pod that is killed the kubelet tolerates the error.
func (s *Step) idempotent() {
	for i := range s.Events {
		if e := &s.Events[i]; e.Method == "StopPodSandbox" && e.Error == "NotFound" {
			e.Error = "Unknown"
		}
	}
}

func (g *generator) step(wait float64) *Step {
	g.s.Steps = append(g.s.Steps, Step{Wait: wait, Do: Sync})
	s := &g.s.Steps[len(g.s.Steps)-1]
	// What has started up says so, or nothing would ever get on.
	for _, c := range g.allContainers() {
		if c.StartupProbe != nil && g.chance(70) {
			s.Events = append(s.Events, Event{Kind: Startup, Container: c.Name, Verdict: "success"})
		}
	}
	return s
}

func (g *generator) end() {
	s := g.step(1)
	s.Events = append(s.Events, g.deletion())
	if g.chance(25) {
		s.Events = append(s.Events, g.event())
	}
	if g.chance(20) {
		// Something outlives the first try.
		s.Events = append(s.Events, Event{Kind: Fail, Method: "StopContainer", Error: "Unknown"},
			Event{Kind: Fail, Method: "StopPodSandbox", Error: "Unavailable"})
	}
	for range 2 {
		s := g.step(pick[float64](g, 1, 10))
		if g.chance(25) {
			s.Events = append(s.Events, g.deletion())
		}
	}
	last := g.step(1)
	last.Do = GC
	if g.chance(15) {
		last.Events = append(last.Events, Event{Kind: UnknownDead, Container: pick(g, g.allContainers()...).Name})
	}
}

func (g *generator) deletion() Event {
	e := Event{Kind: Delete}
	if g.chance(70) {
		e.Grace = ptr.To(pick[int64](g, 0, 1, 3, 6, 30, 60))
	}
	return e
}

func (g *generator) allContainers() []*corev1.Container {
	var all []*corev1.Container
	for i := range g.pod.Spec.InitContainers {
		all = append(all, &g.pod.Spec.InitContainers[i])
	}
	for i := range g.pod.Spec.Containers {
		all = append(all, &g.pod.Spec.Containers[i])
	}
	return all
}

// failing are the methods that can fail; those after the first four for any
// container.
var failing = []string{
	"StopContainer", "CreateContainer", "StartContainer", "RemoveContainer",
	"PullImage", "RunPodSandbox", "PodSandboxStatus", "StopPodSandbox", "RemovePodSandbox", "ImageStatus", "ListContainers",
}

func (g *generator) event() Event {
	c := pick(g, g.allContainers()...)
	switch g.IntN(100) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17:
		return Event{Kind: Exit, Container: c.Name, ExitCode: pick[int32](g, 0, 1, 42, 137), OOM: g.chance(10), Ago: pick(g, 0.1, 0.4, 20.3)}
	case 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32:
		return Event{Kind: Liveness, Container: c.Name, Verdict: "failure"}
	case 33, 34, 35, 36, 37, 38:
		return Event{Kind: Startup, Container: c.Name, Verdict: "failure"}
	case 39, 40, 41, 42, 43, 44:
		return Event{Kind: Unknown, Container: c.Name}
	case 45, 46, 47, 48, 49:
		return Event{Kind: Removed, Container: c.Name}
	case 50, 51, 52, 53, 54:
		return Event{Kind: SandboxDied}
	case 55, 56, 57, 58:
		return Event{Kind: pick(g, SandboxNotReady, SandboxLost, SandboxOnlyLost, SandboxSecond, SandboxNoIP)}
	case 59, 60:
		return Event{Kind: ImageGone, Image: withTag(c.Image)}
	case 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79:
		return g.failure(c.Name)
	default:
		return g.update(c)
	}
}

func (g *generator) failure(name string) Event {
	e := Event{Kind: Fail, Error: pick(g, "Unknown", "Unavailable", "DeadlineExceeded", "NotFound")}
	i := g.IntN(len(failing))
	if g.chance(40) {
		i = 0
	}
	e.Method = failing[i]
	if i < 4 {
		e.Container = name
	}
	if e.Method == "RemoveContainer" && e.Error == "NotFound" {
		e.Error = "Unknown" // CRI forbids the other
	}
	g.details().worsen(&e)
	return e
}

// update changes the template: an image, which restarts, or what does not.
func (g *generator) update(c *corev1.Container) Event {
	switch g.IntN(6) {
	case 0, 1, 2:
		c.Image = fmt.Sprintf("example.com/%s:v%d", c.Name, 2+g.IntN(3))
	case 3:
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		c.Lifecycle.PreStop = g.handler("prestop", c.Name)
	case 4:
		g.pod.Spec.TerminationGracePeriodSeconds = ptr.To(pick[int64](g, 1, 5, 20))
	case 5:
		if c.LivenessProbe != nil {
			c.LivenessProbe = nil
		} else {
			c.LivenessProbe = g.probe()
		}
	}
	return Event{Kind: Update, Pod: g.pod.DeepCopy()}
}
