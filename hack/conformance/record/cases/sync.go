// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// NewSync makes a case of syncpod-trace: one of the known with changes, or another one.
func NewSync(seed uint64, n int, known []*Sync) *Sync {
	d := newDice(seed, uint64(n))
	c := clone(known[d.IntN(len(known))])
	if d.chance(50) {
		c.Pod = d.pod(n, false)
		c.PodStatus = d.observed(c.Pod)
		c.RestartAllContainers = d.chance(6)
	} else {
		d.mutate(c.Pod, &c.PodStatus)
	}
	c.ID = fmt.Sprintf("sync-%d-%d", seed, n)
	c.Pod.Spec.TerminationGracePeriodSeconds = ptr.To(pick[int64](d, 3, 10, 30))
	c.Probes = recordings.Probes{Liveness: d.verdicts(&c.PodStatus, 45), Startup: d.verdicts(&c.PodStatus, 45)}
	c.PodTerminationRequested = d.chance(13)
	c.Hooks = map[string]recordings.Hook{}
	d.startable(c.Pod.Spec.InitContainers, c.Hooks)
	d.startable(c.Pod.Spec.Containers, c.Hooks)
	d.backoffs(c)
	d.behaviour(c)
	return c
}

// startable gives containers hooks and pull policies.
func (d dice) startable(list []corev1.Container, hooks map[string]recordings.Hook) {
	for i := range list {
		c := &list[i]
		c.ImagePullPolicy = pick(d, corev1.PullIfNotPresent, corev1.PullIfNotPresent, corev1.PullIfNotPresent,
			corev1.PullIfNotPresent, corev1.PullAlways, corev1.PullNever)
		c.Lifecycle = nil
		if c.Name[0] == 'i' && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
			continue
		}
		lifecycle := &corev1.Lifecycle{}
		if d.chance(30) {
			lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prestop", c.Name}}}
			// No hook takes just as long as the shortest grace period.
			hooks["prestop/"+c.Name] = recordings.Hook{Seconds: pick(d, 0, 0.5), Error: pick(d, "", "", "", "command terminated with exit code 1")}
		}
		if d.chance(35) {
			lifecycle.PostStart = d.postStart(c.Name)
			if lifecycle.PostStart.Sleep == nil {
				hooks["poststart/"+c.Name] = recordings.Hook{
					Seconds: pick(d, 0, 0.5, 1), Error: pick(d, "", "", "command terminated with exit code 7", "connection refused"),
				}
			}
		}
		if lifecycle.PreStop != nil || lifecycle.PostStart != nil {
			c.Lifecycle = lifecycle
		}
	}
}

func (d dice) postStart(name string) *corev1.LifecycleHandler {
	switch d.IntN(4) {
	case 0:
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/poststart/" + name, Port: intstr.FromInt32(8080), Host: pick(d, "", "10.9.8.7"),
		}}
	case 1:
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: pick[int64](d, 0, 1, 2)}}
	default:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"poststart", name}}}
	}
}

// backoffs says what time it is, when what has exited did, and what waits.
func (d dice) backoffs(c *Sync) {
	c.Now = recordedFrom.Add(time.Duration(len(c.PodStatus.Containers)+1)*time.Minute + time.Duration(d.IntN(600))*time.Second)
	c.Backoff = []recordings.SyncBackoff{}
	seen := map[string]bool{}
	for i := range c.PodStatus.Containers {
		ct := &c.PodStatus.Containers[i]
		if ct.State != "exited" || seen[ct.Name] {
			continue
		}
		seen[ct.Name] = true
		if d.chance(60) {
			ago := pick(d, 0, 1, 5, 9.5, 10, 15, 19.9, 39.9, 40, 79.5, 100, 150, 160, 299.5, 300, 400)
			ct.FinishedAt = recordings.Time{Time: c.Now.Add(-time.Duration(ago * float64(time.Second)))}
		}
		if names(&c.PodStatus, ct.Name) && d.chance(60) {
			ran := pick(d, 0.5, 5, 30.25, 100, 599, 600, 600.001, 601, 900)
			c.Backoff = append(c.Backoff, recordings.SyncBackoff{
				Container: ct.Name, BackoffSeconds: pick[float64](d, 10, 20, 40, 80, 160, 300, 300),
				LastUpdate: ct.FinishedAt.Add(-time.Duration(ran * float64(time.Second))),
			})
		}
	}
}

// names reports whether the pod names a container that is seen.
func names(s *recordings.PodStatus, name string) bool {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return s.Containers[i].HashMatches != nil
		}
	}
	return false
}

// behaviour says what the runtime does. Only one of the containers that may be
// killed one after another fails to stop: their order is chance.
func (d dice) behaviour(c *Sync) {
	c.ImagesPresent = some(d, 72, []string{"busybox:latest", "nginx:1.27", "registry.example/app:v2"})
	c.Runtime = recordings.SyncRuntime{
		Containers: []recordings.SyncContainer{}, Sandboxes: []recordings.SyncSandbox{},
		PullError: map[string]string{}, CreateError: map[string]string{}, StartError: map[string]string{},
	}
	alive := 0
	for i := range c.PodStatus.Containers {
		if s := c.PodStatus.Containers[i].State; s == "running" || s == "unknown" {
			alive++
		}
	}
	podKill := len(c.PodStatus.Sandboxes) == 0 || c.PodStatus.Sandboxes[0].State != "READY"
	for i := range c.PodStatus.Containers {
		script := recordings.SyncContainer{
			ID: c.PodStatus.Containers[i].ID, StopSeconds: pick(d, 0, 0, 0.5, 1), StopError: pick(d, "", "", "", "", "", "", "", "", "NotFound"),
			RemoveError: pick(d, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "Unknown"),
		}
		if (alive <= 1 || podKill) && d.chance(12) {
			script.StopError = pick(d, "Unknown", "DeadlineExceeded")
		}
		c.Runtime.Containers = append(c.Runtime.Containers, script)
	}
	for i := range c.PodStatus.Sandboxes {
		c.Runtime.Sandboxes = append(c.Runtime.Sandboxes, recordings.SyncSandbox{
			ID: c.PodStatus.Sandboxes[i].ID, StopError: pick(d, "", "", "", "", "", "", "", "", "", "", "NotFound", "Unknown"),
		})
	}
	for _, image := range some(d, 7, []string{"busybox:latest", "nginx:1.27", "registry.example/app:v2"}) {
		c.Runtime.PullError[image] = pick(d, "Plain", "Unknown", "Unavailable")
	}
	for _, container := range some(d, 6, containersOf(c.Pod)) {
		c.Runtime.CreateError[container.Name] = pick(d, "Plain", "Unknown")
	}
	for _, container := range some(d, 6, containersOf(c.Pod)) {
		c.Runtime.StartError[container.Name] = pick(d, "Plain", "Unknown")
	}
	if d.chance(7) {
		c.Runtime.RunPodSandboxError = pick(d, "Plain", "Unavailable", "Unknown")
	}
	if d.chance(3) {
		c.Runtime.PodSandboxStatusError = "Unknown"
	}
}
