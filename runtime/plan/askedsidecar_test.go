// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// fresh is a pod of which nothing was started yet in its sandbox.
func fresh(names ...string) plan.Input {
	in := runningInput(corev1.RestartPolicyAlways, names...)
	in.Observed.Containers = nil
	return in
}

// A sidecar that is kept stopped is passed over in a new sandbox: what comes before it still
// comes first, and what comes after it does not wait for it.
func TestStoppedSidecarInNewSandbox(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names []string
		stops []string
		// inits and mains are what is started, in each sync.
		inits, mains [][]int
	}{
		"alone":            {names: []string{"s", "a"}, stops: []string{"s"}, inits: [][]int{nil}, mains: [][]int{{0}}},
		"first":            {names: []string{"s", "i", "a"}, stops: []string{"s"}, inits: [][]int{{1}, nil}, mains: [][]int{nil, {0}}},
		"last":             {names: []string{"i", "s", "a"}, stops: []string{"s"}, inits: [][]int{{0}, nil}, mains: [][]int{nil, {0}}},
		"between":          {names: []string{"i", "s", "i2", "a"}, stops: []string{"s"}, inits: [][]int{{0}, {2}, nil}, mains: [][]int{nil, nil, {0}}},
		"two":              {names: []string{"i", "s", "s2", "a"}, stops: []string{"s", "s2"}, inits: [][]int{{0}, nil}, mains: [][]int{nil, {0}}},
		"the other starts": {names: []string{"s", "s2", "a"}, stops: []string{"s"}, inits: [][]int{{1}, nil}, mains: [][]int{nil, {0}}},
	} {
		in := fresh(tc.names...)
		in.Asked = map[string]plan.Asked{}
		for _, stopped := range tc.stops {
			in.Asked[stopped] = askedStop()
		}
		noSandbox := in
		noSandbox.Observed = &plan.PodStatus{ID: in.Observed.ID}
		if got := plan.Compute(noSandbox); !slices.Equal(got.InitContainersToStart, tc.inits[0]) || !slices.Equal(got.ContainersToStart, tc.mains[0]) || !got.CreateSandbox {
			t.Errorf("%s: without a sandbox: %+v", name, got)
		}
		for step := range tc.inits {
			got := plan.Compute(in)
			if !slices.Equal(got.InitContainersToStart, tc.inits[step]) || !slices.Equal(got.ContainersToStart, tc.mains[step]) {
				t.Errorf("%s: sync %d: %+v", name, step, got)
			}
			for _, i := range got.InitContainersToStart {
				c := &in.Pod.Spec.InitContainers[i]
				started := plan.ContainerStatus{ID: c.Name + "-id", Name: c.Name, SandboxID: "sandbox", Hash: plan.HashContainer(c), State: plan.ContainerRunning}
				if !podspec.IsSidecar(c) {
					started.State = plan.ContainerExited
				}
				in.Observed.Containers = append(in.Observed.Containers, started)
			}
		}
	}
}

// Whatever a runtime reports, a sidecar that is kept stopped is never started, and a pod whose
// sidecars all are does not wait for them.
func TestPropertyStoppedSidecars(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Asked = map[string]plan.Asked{}
		plain := in.RestartAllContainers
		for i := range in.Pod.Spec.InitContainers {
			if c := &in.Pod.Spec.InitContainers[i]; podspec.IsSidecar(c) {
				in.Asked[c.Name] = askedStop()
			} else {
				plain = true
			}
		}
		got := plan.Compute(in)
		for _, i := range got.InitContainersToStart {
			if podspec.IsSidecar(&in.Pod.Spec.InitContainers[i]) {
				t.Fatalf("Started: %+v", got)
			}
		}
		if !plain && got.CreateSandbox && len(got.ContainersToStart) == 0 {
			t.Fatalf("A sandbox is made, and nothing is started: %+v", got)
		}
	})
}
