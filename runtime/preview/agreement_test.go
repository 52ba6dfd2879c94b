// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// obedient is a runtime that does what it is told to; the kills that the
// executor reports are kept.
type obedient struct {
	executor.Runtime
	observed *plan.PodStatus

	mu      sync.Mutex
	kills   map[string]v1alpha1.KillRecord
	stopped map[string]bool
}

func (o *obedient) ContainerStatus(_ context.Context, id string) (plan.ContainerStatus, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.observed.Containers {
		if c.ID == id {
			if o.stopped[id] {
				c.State = plan.ContainerExited
			}
			return c, nil
		}
	}
	return plan.ContainerStatus{}, fmt.Errorf("no container %q", id)
}

func (o *obedient) StopContainer(_ context.Context, id string, _ int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped[id] = true
	return nil
}

func (*obedient) RemoveContainer(context.Context, string) error { return nil }
func (*obedient) StopSandbox(context.Context, string) error     { return nil }
func (*obedient) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
	return nil, nil, 0, nil
}
func (*obedient) Event(*corev1.Pod, string, string, string, string) {}

func (o *obedient) Kill(_ types.UID, kill plan.KillProgress) {
	rec := kill.Record
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kills[rec.Container] = rec
}

// told is what a preview and a record must say alike.
func told(container string, trigger v1alpha1.KillTrigger, message string, seconds int64, source v1alpha1.GraceSource, hook string) string {
	return fmt.Sprintf("%s: %s %q %d s from %s, hook %q", container, trigger, message, seconds, source, hook)
}

// What a preview says about a kill is what the executor then records.
func TestPreviewComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawPods(t)
		observed := Running(before)
		probes := drawProbes(t, observed)
		actions := plan.Compute(plan.Input{Pod: after, Observed: observed, Probes: probes, Definitions: plan.Define(after), Differences: plan.AllDifferences()})
		b := &builder{Input: Input{Pod: after, Observed: observed}, definitions: plan.Define(after)}
		b.sync(actions)
		var want []string
		for _, s := range b.out.Kills() {
			want = append(want, told(s.Container, s.Trigger, s.Message, s.Grace.Seconds, s.Grace.Source, s.PreStop))
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, carryOut(t, after, observed, actions)); diff != "" {
			t.Errorf("kills (-preview +executor):\n%s", diff)
		}
	})
}

// carryOut lets the executor do the kills of a plan.
func carryOut(t *rapid.T, pod *corev1.Pod, observed *plan.PodStatus, actions plan.Actions) []string {
	actions.CreateSandbox = false
	actions.InitContainersToStart, actions.ContainersToStart = nil, nil
	o := &obedient{observed: observed, kills: map[string]v1alpha1.KillRecord{}, stopped: map[string]bool{}}
	e := executor.New(executor.Config{Runtime: o, Events: o, Kills: o, Differences: plan.AllDifferences()})
	if result := e.SyncPod(context.Background(), plan.SyncRequest{Pod: pod, Observed: observed, Actions: actions}); result.Err != nil {
		t.Fatal(result.Err)
	}
	var got []string
	for _, k := range o.kills {
		hook := ""
		if k.PreStop != nil && k.PreStop.Outcome != v1alpha1.PreStopSkipped {
			hook = k.PreStop.Handler
		}
		got = append(got, told(k.Container, k.Trigger, k.Message, k.Grace.Seconds, k.Grace.Source, hook))
	}
	slices.Sort(got)
	return got
}

// drawPods draws a pod and what becomes of it.
func drawPods(t *rapid.T) (before, after *corev1.Pod) {
	nw := &v1alpha1.NodeWorkload{}
	nw.Name, nw.UID = "w-n1", "u"
	draw := func(step string) *corev1.Pod {
		spec := &nw.Spec.Template.Spec
		spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"Always", "Never", "OnFailure"}).Draw(t, step+" policy")
		spec.TerminationGracePeriodSeconds = ptr.To(rapid.Int64Range(0, 3).Draw(t, step+" grace"))
		spec.Hostname = rapid.SampledFrom([]string{"", "", "h"}).Draw(t, step+" hostname")
		spec.InitContainers, spec.Containers = nil, nil
		for _, name := range []string{"s1", "s2"} {
			c := drawContainer(t, step, name)
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			spec.InitContainers = append(spec.InitContainers, c)
		}
		names := rapid.SampledFrom([]string{"a b", "a", "a c"}).Draw(t, step+" names")
		for name := range strings.FieldsSeq(names) {
			spec.Containers = append(spec.Containers, drawContainer(t, step, name))
		}
		return template.Pod(nw)
	}
	return draw("before"), draw("after")
}

func drawContainer(t *rapid.T, step, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: rapid.SampledFrom([]string{"i", "i", "j"}).Draw(t, step+" image of "+name)}
	if rapid.Bool().Draw(t, step+" hook of "+name) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	}
	if rapid.Bool().Draw(t, step+" probe of "+name) {
		c.LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: ptr.To(rapid.Int64Range(4, 5).Draw(t, step+" probe grace of "+name))}
	}
	return c
}

func drawProbes(t *rapid.T, observed *plan.PodStatus) map[string]plan.ProbeResults {
	probes := map[string]plan.ProbeResults{}
	for _, c := range observed.Containers {
		probes[c.ID] = plan.ProbeResults{
			Startup:  plan.ProbeSuccess,
			Liveness: rapid.SampledFrom([]plan.ProbeResult{plan.ProbeSuccess, plan.ProbeFailure}).Draw(t, "liveness of "+c.Name),
		}
	}
	return probes
}

// A plan's action that a preview does not tell would be worse than no preview:
// a new field of plan.Actions needs a step in sync.go, and a line here.
func TestEveryActionIsTold(t *testing.T) {
	known := []string{
		"KillPod", "Trigger", "Message", "CreateSandbox", "SandboxID", "Attempt", "ContainersToKill", "ContainersToReset",
		"EphemeralContainersToStart", "InitContainersToStart", "ContainersToStart", "Images",
		"MemoryToUpdate", "CPUToUpdate", "UpdatePodResources",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[plan.Actions]()) {
		if !slices.Contains(known, f.Name) {
			t.Errorf("runtime/preview does not tell about plan.Actions.%s", f.Name)
		}
	}
}
