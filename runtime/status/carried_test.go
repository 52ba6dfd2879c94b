// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// carried is what one status has of the one before it.
type carried struct {
	Started, Ready bool
	// ReadySince is when the condition Ready became what it is.
	ReadySince time.Time
	Restarts   int32
	// LastExit is the instance that ended last, and Mount, MemoryLimit and IP what the instance
	// and its sandbox have.
	LastExit, Mount, MemoryLimit, IP string
	Phase                            corev1.PodPhase
	StartTime                        time.Time
}

// A container ran, had passed its startup probe and was ready. What the next status keeps of
// that depends on what is another one: the container, the sandbox, the definition or the boot.
// The verdicts of the probes are unknown, as right after a restart of the shim, or before the
// first probe of a new instance.
func TestWhatAStatusCarriesOver(t *testing.T) {
	t1 := t0.Add(time.Hour)
	define := func(mount string, change func(*corev1.Container)) *corev1.Pod {
		c := corev1.Container{
			Name: "c", StartupProbe: &corev1.Probe{}, ReadinessProbe: &corev1.Probe{},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: mount}},
			Resources:    corev1.ResourceRequirements{Limits: amounts("", "10Mi")},
		}
		if change != nil {
			change(&c)
		}
		return pod(c)
	}
	here, there := define("/v", nil), define("/w", nil)
	first := running("c")
	first.Resources = &corev1.ResourceRequirements{Limits: amounts("", "11Mi")}
	passed := map[string]plan.ProbeResults{"c-0": {Startup: plan.ProbeSuccess, Readiness: plan.ProbeSuccess}}
	second := running("c")
	second.ID, second.RestartCount, second.CreatedAt, second.StartedAt = "c-1", 1, t1, t1
	ended := exited("c", 3)
	ended.FinishedAt = t0.Add(time.Minute)
	untold := running("c") // the runtime does not say what resources it has
	lost := running("c")
	lost.State = plan.ContainerUnknown
	elsewhere := observed(second, ended)
	elsewhere.IPs, elsewhere.ActiveContainerIDs = []string{"10.0.0.20"}, []string{second.ID}
	gone := observed()
	gone.IPs, gone.Sandboxes = nil, nil

	as := func(change func(*carried)) carried {
		c := carried{
			Started: true, Ready: true, ReadySince: t0, Mount: "/v", MemoryLimit: "11Mi", IP: "10.0.0.9",
			Phase: corev1.PodRunning, StartTime: t0,
		}
		if change != nil {
			change(&c)
		}
		return c
	}
	next := func(change func(*carried)) carried {
		return as(func(c *carried) {
			c.Started, c.Ready, c.ReadySince, c.Restarts, c.LastExit, c.MemoryLimit = false, false, t1, 1, "c-0", "10Mi"
			if change != nil {
				change(c)
			}
		})
	}
	tests := map[string]struct {
		pod      *corev1.Pod
		observed *plan.PodStatus
		probes   map[string]plan.ProbeResults
		// via is observed before.
		via  *plan.PodStatus
		want carried
	}{
		"the boot, and nothing was seen since": {pod: here, want: as(func(c *carried) { c.Started, c.Ready, c.ReadySince = false, false, t1 })},
		"nothing":                              {pod: here, observed: observed(untold), want: as(nil)},
		"the definition":                       {pod: there, observed: observed(untold), want: as(nil)},
		"the container":                        {pod: here, observed: observed(second, ended), want: next(nil)},
		"the container, the earlier removed":   {pod: here, observed: observed(second), want: next(func(c *carried) { c.Restarts, c.LastExit = 1, "" })},
		"the container and its definition":     {pod: there, observed: observed(second, ended), want: next(func(c *carried) { c.Mount = "/w" })},
		"the container and the sandbox":        {pod: here, observed: elsewhere, want: next(func(c *carried) { c.IP = "10.0.0.20" })},
		"the container, ended and not seen":    {pod: here, observed: observed(ended), want: next(func(c *carried) { c.Restarts, c.LastExit = 0, "" })},
		"the sandbox, and nothing is in it":    {pod: here, observed: gone, want: next(func(c *carried) { c.LastExit, c.MemoryLimit = "", "" })},
		"the container, which has passed too":  {pod: here, observed: observed(second, ended), probes: map[string]plan.ProbeResults{"c-1": passed["c-0"]}, want: next(func(c *carried) { c.Started, c.Ready = true, true })},
		"nothing, after it was not found": {pod: here, via: observed(lost), observed: observed(untold), want: as(func(c *carried) {
			c.Started, c.Ready, c.ReadySince, c.Restarts, c.MemoryLimit = false, false, t1, 1, "10Mi"
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Pod: here, Observed: observed(first), Probes: passed, RuntimeName: "containerd", Now: t0}
			st := Compute(in)
			in.AgentStartedAt, in.Now = t1, t1
			if in.Pod, in.Probes = tc.pod, nil; tc.via != nil {
				before := st
				in.Previous, in.Observed = &before, tc.via
				st = Compute(in)
			}
			if before := st; tc.observed == nil {
				st = OfAnotherBoot(here, before, t1)
			} else {
				in.Previous, in.Observed, in.Probes = &before, tc.observed, tc.probes
				st = Compute(in)
			}
			if diff := cmp.Diff(tc.want, carriedIn(&st)); diff != "" {
				t.Errorf("What the status has (-want +got):\n%s", diff)
			}
		})
	}
}

func carriedIn(st *corev1.PodStatus) carried {
	c := &st.ContainerStatuses[0]
	got := carried{
		Started: *c.Started, Ready: c.Ready, ReadySince: conditionByType(st.Conditions, corev1.PodReady).LastTransitionTime.Time,
		Restarts: c.RestartCount, IP: st.PodIP, Phase: st.Phase, StartTime: st.StartTime.Time,
	}
	if last := c.LastTerminationState.Terminated; last != nil && last.ContainerID != "" {
		got.LastExit = last.ContainerID[len("containerd://"):]
	}
	if len(c.VolumeMounts) > 0 {
		got.Mount = c.VolumeMounts[0].MountPath
	}
	if c.Resources != nil {
		got.MemoryLimit = c.Resources.Limits.Memory().String()
	}
	return got
}
