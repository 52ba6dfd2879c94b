// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func probeAt(path string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
}

// twoContainers are a and b with these images, and a liveness probe.
func twoContainers(a, b, probe string) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Template.Spec.Containers = []corev1.Container{
			{Name: "a", Image: a, LivenessProbe: probeAt(probe)}, {Name: "b", Image: b, LivenessProbe: probeAt(probe)},
		}
	}
}

func onTheHost(nw *template.Workload) { nw.Template.Spec.HostNetwork = true }

// paths are where the containers are probed.
func (n *fakeNode) paths() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	paths := map[string]string{}
	for _, c := range n.probed.Spec.Containers {
		if c.LivenessProbe != nil {
			paths[c.Name] = c.LivenessProbe.HTTPGet.Path
		}
	}
	return paths
}

// Each container keeps the liveness probe that it was made with, however many changes
// follow each other.
func TestProbesAfterTwoQuickChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		newRegistry(n)
		p := n.start(t)
		p.Update(workload("w", twoContainers("image:1", "image:1", "/1")))
		n.settle(time.Second)
		p.Update(workload("w", generation(2), twoContainers("image:2", "absent:2", "/2")))
		n.settle(time.Second)
		p.Update(workload("w", generation(3), twoContainers("absent:3", "absent:3", "/3")))
		n.settle(time.Second)
		if diff := cmp.Diff(map[string]string{"a": "/2", "b": "/1"}, n.paths()); diff != "" {
			t.Errorf("probed (-want +got):\n%s", diff)
		}
	})
}

// A sidecar that waits is not probed by a startup probe that is new in the template.
func TestWaitingSidecarKeepsItsProbes(t *testing.T) {
	sidecar := func(image string, startup *corev1.Probe) func(*template.Workload) {
		return func(nw *template.Workload) {
			nw.Template.Spec.InitContainers = []corev1.Container{{
				Name: "s", Image: image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), StartupProbe: startup,
			}}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		newRegistry(n)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			for _, i := range r.Actions.InitContainersToStart {
				c := r.Pod.Spec.InitContainers[i]
				n.pods["w"].containers = append(n.pods["w"].containers, plan.ContainerStatus{
					ID: "s", Name: "s", SandboxID: n.pods["w"].sandbox, State: plan.ContainerRunning, Hash: plan.HashContainer(&c),
				})
			}
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("w", sidecar("image:1", nil)))
		n.settle(time.Minute)
		p.Update(workload("w", generation(2), sidecar("absent:2", probeAt("/2"))))
		n.settle(time.Second)
		n.mu.Lock()
		probe := n.probed.Spec.InitContainers[0].StartupProbe
		n.mu.Unlock()
		if probe != nil || n.waits("w") == nil {
			t.Errorf("probed by %+v, condition %+v", probe, n.waits("w"))
		}
	})
}

// While a sandbox waits for images, what is in it is kept as it was made: what crashes
// starts again, and what the template has lost is probed and reported.
func TestKeptSandbox(t *testing.T) {
	for name, change := range map[string]func(*template.Workload){
		"both change": twoContainers("absent:2", "absent:2", "/2"),
		"b is removed": func(nw *template.Workload) {
			nw.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "absent:2"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, p := newRegistry(n), n.start(t)
				before := workload("w", twoContainers("image:1", "image:1", "/1"))
				p.Update(before)
				n.settle(time.Second)
				p.Update(workload("w", generation(2), change, onTheHost))
				n.settle(time.Second)
				r.set(func() {
					for i := range n.pods["w"].containers {
						if c := &n.pods["w"].containers[i]; c.Name == "b" {
							c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 1, time.Now()
						}
					}
				})
				p.Wake("w")
				n.settle(time.Second)
				starts := slices.DeleteFunc(n.log(), func(call string) bool { return call != "start a image:1" && call != "start b image:1" })
				if want := []string{"start a image:1", "start b image:1", "start b image:1"}; !slices.Equal(starts, want) {
					t.Errorf("starts %q, want %q", starts, want)
				}
				if diff := cmp.Diff(map[string]string{"a": "/1", "b": "/1"}, n.paths()); diff != "" {
					t.Errorf("probed (-want +got):\n%s", diff)
				}
				st := n.published("w")
				if st.Ready != "2/2" || st.TemplateHash != hashOf(before) || n.waits("w") == nil || len(n.killed) > 0 {
					t.Errorf("ready %s, hash %q, condition %+v, %d pod kills", st.Ready, st.TemplateHash, n.waits("w"), len(n.killed))
				}
				for _, s := range n.synced[1:] {
					if s.Actions.KillPod || len(s.Actions.ContainersToKill) > 0 {
						t.Errorf("kills %+v", s.Actions)
					}
				}
			})
		})
	}
}

// A template that differs in nothing but the sandbox does not run as long as that is kept.
func TestKeptSandboxIsNotTheTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		newRegistry(n)
		p := n.start(t)
		containers := twoContainers("absent:1", "absent:1", "/1") // started before its image was removed
		before := workload("w", containers)
		p.Update(before)
		n.settle(time.Second)
		p.Update(workload("w", generation(2), containers, onTheHost))
		n.settle(time.Minute)
		if st := n.published("w"); st.TemplateHash != hashOf(before) || n.waits("w") == nil || len(n.killed) > 0 {
			t.Errorf("hash %q, condition %+v, %d pod kills", st.TemplateHash, n.waits("w"), len(n.killed))
		}
	})
}

// A pod whose cgroup is gone is started over as the template says: that does not wait.
func TestKeptSandboxWithoutItsCgroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		newRegistry(n)
		p := n.start(t)
		p.Update(workload("w", twoContainers("image:1", "image:1", "/1")))
		n.settle(time.Second)
		p.Update(workload("w", generation(2), twoContainers("absent:2", "absent:2", "/2"), onTheHost))
		n.settle(time.Second)
		n.mu.Lock()
		n.outsideCgroup = true
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome { return plan.SyncOutcome{} }
		n.mu.Unlock()
		p.Wake("w")
		n.settle(10 * time.Millisecond)
		if last := n.synced[len(n.synced)-1]; !last.Actions.KillPod || last.Actions.Trigger != v1alpha1.TriggerPodCgroupMissing || last.Pod.Spec.Containers[0].Image != "absent:2" {
			t.Errorf("%s of %s", last.Actions.Trigger, last.Pod.Spec.Containers[0].Image)
		}
	})
}

// The rest of the shim knows of what runs as long as another template waits.
func TestKnownPodsWhileATemplateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		newRegistry(n)
		p := n.start(t)
		images := func(step string, want ...string) {
			t.Helper()
			known := p.Known()[0]
			kept := map[string]bool{}
			for _, pod := range append(known.Kept, known.Pod) {
				kept[pod.Spec.Containers[0].Image] = true
			}
			if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, want) {
				t.Errorf("%s: pods with %q, want %q", step, got, want)
			}
		}
		p.Update(workload("w", twoContainers("image:1", "image:1", "/1")))
		n.settle(time.Second)
		images("alone", "image:1")
		p.Update(workload("w", generation(2), twoContainers("absent:2", "absent:2", "/2"), onTheHost))
		images("at once", "absent:2", "image:1")
		n.settle(time.Minute)
		images("waiting", "absent:2", "image:1")
		p.Update(workload("w", generation(3), twoContainers("absent:3", "absent:3", "/3"), onTheHost))
		n.settle(time.Minute)
		images("another one waiting", "absent:3", "image:1")
		n = restarted(t, n)
		newRegistry(n)
		p = n.start(t)
		images("another process", "absent:3", "image:1")
		booted := restarted(t, n)
		newRegistry(booted)
		booted.pods = map[types.UID]*fakePod{}
		booted.restoreWith(t, func(c *Config) { c.BootID = "another" })
		if known := booted.pool.Known()[0]; len(known.Kept) > 0 {
			t.Errorf("after another boot %d templates before are kept", len(known.Kept))
		}
		p.Update(workload("w", generation(3), twoContainers("absent:3", "absent:3", "/3"), onTheHost))
		n.settle(time.Minute)
		images("another process, waiting", "absent:3", "image:1")
		p.Update(workload("w", generation(4), twoContainers("image:1", "image:1", "/1")))
		n.settle(time.Minute)
		images("taken back", "image:1")
	})
}
