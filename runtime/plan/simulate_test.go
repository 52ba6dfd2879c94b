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

// simulation is a runtime that does what a plan says, at once and without
// failure.
type simulation struct {
	in      plan.Input
	started int
}

// carryOut does what the actions say, in their order, and fails when a container
// is started while another instance of it runs.
func (s *simulation) carryOut(t *rapid.T, a plan.Actions) {
	t.Helper()
	if a.KillPod {
		s.killPod()
	} else {
		for _, k := range a.ContainersToKill {
			s.exit(k.ID, 137)
		}
	}
	if a.CreateSandbox {
		s.in.Observed.Sandboxes = slices.Insert(s.in.Observed.Sandboxes, 0, plan.SandboxStatus{
			ID:      fmt.Sprintf("new-sandbox-%d", a.Attempt),
			State:   plan.SandboxReady,
			Attempt: a.Attempt,
			Hash:    s.in.Definitions.Pod,
		})
	}
	if len(a.ContainersToReset) > 0 {
		s.reset(a.ContainersToReset)
		return
	}
	for _, i := range a.EphemeralContainersToStart {
		s.start(t, s.in.Pod.Spec.EphemeralContainers[i].Name)
	}
	for _, i := range a.InitContainersToStart {
		s.start(t, s.in.Pod.Spec.InitContainers[i].Name)
	}
	s.resize(t, a)
	for _, i := range a.ContainersToStart {
		s.start(t, s.in.Pod.Spec.Containers[i].Name)
	}
}

func (s *simulation) killPod() {
	for i := range s.in.Observed.Containers {
		if c := &s.in.Observed.Containers[i]; c.State != plan.ContainerExited {
			c.State, c.ExitCode = plan.ContainerExited, 137
		}
	}
	for i := range s.in.Observed.Sandboxes {
		s.in.Observed.Sandboxes[i].State = plan.SandboxNotReady
	}
}

// resize gives running containers what the actions say, one resource at a time.
func (s *simulation) resize(t *rapid.T, a plan.Actions) {
	t.Helper()
	if a.KillPod {
		return
	}
	for name, updates := range map[corev1.ResourceName][]plan.ResourceUpdate{
		corev1.ResourceMemory: a.MemoryToUpdate, corev1.ResourceCPU: a.CPUToUpdate,
	} {
		for _, u := range updates {
			status := s.in.Observed.Current(u.Name)
			if status == nil || status.ID != u.ID || status.State != plan.ContainerRunning {
				t.Errorf("Update %+v of what does not run", u)
				continue
			}
			given, _ := plan.Actuated(s.in.Actuated, status)
			s.in.Actuated[u.ID] = given.With(name, u.Desired)
		}
	}
}

func (s *simulation) exit(id string, code int32) {
	for i := range s.in.Observed.Containers {
		if c := &s.in.Observed.Containers[i]; c.ID == id {
			c.State, c.ExitCode = plan.ContainerExited, code
		}
	}
}

func (s *simulation) reset(resets []plan.Reset) {
	for _, r := range resets {
		s.in.Observed.Containers = slices.DeleteFunc(s.in.Observed.Containers,
			func(c plan.ContainerStatus) bool { return c.ID == r.ID })
	}
	s.in.RestartAllContainers = false
}

func (s *simulation) start(t *rapid.T, name string) {
	t.Helper()
	for i := range s.in.Observed.Containers {
		c := &s.in.Observed.Containers[i]
		if c.Name != name {
			continue
		}
		// The end of its sandbox was the end of one in unknown state.
		unknown := c.State == plan.ContainerUnknown && c.SandboxID == s.in.Observed.Sandboxes[0].ID
		if c.State == plan.ContainerRunning || unknown && s.in.Observed.Current(name) == c {
			t.Errorf("%s is started while %s may run", name, c.ID)
		}
	}
	s.started++
	id := fmt.Sprintf("%s-new-%d", name, s.started)
	resources := s.in.Definitions.Resources[name]
	s.in.Observed.Containers = slices.Insert(s.in.Observed.Containers, 0, plan.ContainerStatus{
		ID:        id,
		Name:      name,
		State:     plan.ContainerRunning,
		SandboxID: s.in.Observed.Sandboxes[0].ID,
		Hash:      s.in.Definitions.Containers[name],
		Recorded:  plan.Recorded{Resources: &resources},
	})
	s.in.Probes[id] = plan.ProbeResults{Liveness: plan.ProbeSuccess, Startup: plan.ProbeSuccess}
}

// pull pulls what a plan waits for.
func (s *simulation) pull(waits []plan.ImageWait) {
	for _, w := range waits {
		s.in.Prepared[w.Image] = plan.Preparation{Ref: "sha256:" + w.Image.Image}
	}
}

// goOn lets plain init containers complete, and probes succeed.
func (s *simulation) goOn() {
	for _, c := range s.in.Pod.Spec.InitContainers {
		status := s.in.Observed.Current(c.Name)
		if status != nil && status.State == plan.ContainerRunning && !podspec.IsSidecar(&c) {
			s.exit(status.ID, 0)
		}
	}
	for i := range s.in.Observed.Containers {
		id := s.in.Observed.Containers[i].ID
		s.in.Probes[id] = plan.ProbeResults{Liveness: plan.ProbeSuccess, Startup: plan.ProbeSuccess}
	}
}
