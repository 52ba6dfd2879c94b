// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A pod that runs outside its cgroup is killed with its hook and the grace period of
// the template, and started again in a new sandbox.
func TestPodOutsideItsCgroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks, f.Images = map[string]recordings.Hook{"prestop/app": {Seconds: 4}}, map[string]bool{"img:1": true}
		f.SandboxKills = true
		pod := testPod(30, withPreStopExec)
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		backoff := map[string]*plan.Backoff{}
		sync := func(outside bool) plan.Actions {
			observed := f.observed()
			in := plan.Input{
				Pod: pod, Observed: observed, Definitions: plan.Define(pod), OutsideCgroup: outside, Differences: plan.AllDifferences(),
			}
			r := plan.SyncRequest{Pod: pod, Observed: observed, Actions: plan.Compute(in), Backoff: backoff, RequestedBy: plan.RequestedByShim}
			if out := newFakeExecutor(f).SyncPod(t.Context(), r); out.Err != nil {
				t.Fatal(out.Err)
			}
			return r.Actions
		}
		sync(false)
		if actions := sync(true); !actions.CreateSandbox {
			t.Errorf("actions %+v, want a new sandbox", actions)
		}
		stops := f.ops("StopContainer")
		if len(stops) != 1 || fmt.Sprint(stops[0]["timeout"]) != "26" {
			t.Errorf("stops %+v, want one with the 26 s that its hook left", stops)
		}
		for _, k := range f.kills {
			if k.Trigger != v1alpha1.TriggerPodCgroupMissing || k.Grace.Source != v1alpha1.GraceSourcePod ||
				k.Message != "Pod cgroup is missing, and the containers run outside of it" {
				t.Errorf("record %+v", k)
			}
		}
		running := 0
		for _, c := range f.observed().Containers {
			if c.State == plan.ContainerRunning {
				running++
			}
		}
		if n := len(f.ops("RunPodSandbox")); n != 2 || running != 1 || len(f.kills) == 0 {
			t.Errorf("%d sandboxes were made, %d containers run, %d records", n, running, len(f.kills))
		}
	})
}
