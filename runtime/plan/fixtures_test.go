// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// newPod returns a pod of plain containers, init containers named "i..." and
// sidecars named "s...".
func newPod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-1"},
		Spec:       corev1.PodSpec{RestartPolicy: policy, TerminationGracePeriodSeconds: new(int64(30))},
	}
	for _, name := range names {
		c := corev1.Container{Name: name, Image: "image-of-" + name}
		switch name[0] {
		case 's':
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case 'i':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// runningInput returns a pod that runs as it should: init containers have
// completed, all others run.
func runningInput(policy corev1.RestartPolicy, names ...string) plan.Input {
	pod := newPod(policy, names...)
	defs := plan.Define(pod)
	observed := &plan.PodStatus{
		ID:        string(pod.UID),
		Name:      pod.Name,
		Namespace: pod.Namespace,
		IPs:       []string{"10.0.0.1"},
		Sandboxes: []plan.SandboxStatus{{
			ID:               "sandbox",
			State:            plan.SandboxReady,
			Attempt:          3,
			NetworkNamespace: plan.NetworkPod,
			Network:          &plan.SandboxNetwork{IP: "10.0.0.1"},
			Hash:             defs.Pod,
		}},
	}
	for _, name := range names {
		state := plan.ContainerRunning
		if name[0] == 'i' {
			state = plan.ContainerExited
		}
		observed.Containers = append(observed.Containers, plan.ContainerStatus{
			ID:        name + "-id",
			Name:      name,
			State:     state,
			Hash:      defs.Containers[name],
			Recorded:  plan.Recorded{Place: plan.PlaceOf(pod, name)},
			CreatedAt: time.Unix(100, 0),
		})
	}
	return plan.Input{Pod: pod, Observed: observed, Probes: map[string]plan.ProbeResults{}, Definitions: defs, Differences: imagesThere()}
}

// imagesThere are all differences for tests in which nothing waits for an image.
func imagesThere() plan.Differences {
	d := plan.AllDifferences()
	d.PullBeforeKill = false
	return d
}

// status returns the current instance of a container of an input.
func status(in plan.Input, name string) *plan.ContainerStatus {
	return in.Observed.Current(name)
}

// spec returns a container of an input's pod.
func spec(in plan.Input, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// why compares kills by who is killed and why; by what they go is TestDecideKill's.
var why = cmpopts.IgnoreFields(plan.Kill{}, "Grace", "Container")
