// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

var stopSeconds = []float64{0, 0, 0.5, 1, 2, 3.5, 8, 100}

// NewKill makes a case of kill-trace.
func NewKill(seed uint64, n int) *Kill {
	d := newDice(seed, uint64(n))
	c := &Kill{ID: fmt.Sprintf("kill-%d-%d", seed, n), Mode: "killPod", Hooks: map[string]recordings.Hook{}}
	one := d.chance(65)
	c.GracePeriodOverride = pick(d, nil, nil, nil, maybe[int64](d, 0, 1, 2, 4, 5, 15))
	c.Pod = d.killPod(n, one)
	switch {
	case one:
		c.Mode = "killContainer"
		d.killContainer(c)
	case d.chance(8):
		c.Pod.Spec = orphanSpec(c.Pod)
		c.GracePeriodOverride = ptr.To[int64](1)
	}
	d.hooksOf(c)
	if !one {
		d.runningOf(c)
	}
	d.sandboxesOf(c)
	if one && d.chance(15) {
		d.withoutPod(c)
	}
	return c
}

// NewOrder makes a case of order-trace: a kill of a pod with sidecars.
func NewOrder(seed uint64, n int) *Kill {
	d := newDice(seed, uint64(n))
	c := &Kill{ID: fmt.Sprintf("order-%d-%d", seed, n), Hooks: map[string]recordings.Hook{}}
	c.GracePeriodOverride = pick(d, nil, nil, maybe[int64](d, 0, 1, 2, 4, 6, 12))
	c.Pod = d.killPod(n, false)
	c.Pod.Spec.InitContainers, c.Pod.Spec.EphemeralContainers = nil, nil
	for i := range 1 + d.IntN(5) {
		sidecar := d.chance(80)
		c.Pod.Spec.InitContainers = append(c.Pod.Spec.InitContainers, d.killed(initName(sidecar, i), sidecar))
	}
	first := &c.Pod.Spec.InitContainers[0]
	first.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	d.hooksOf(c)
	d.runningOf(c)
	d.sandboxesOf(c)
	return c
}

func (d dice) killPod(n int, one bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("kp-%d", n), Namespace: "ns1", UID: types.UID(fmt.Sprintf("kuid-%d", n))},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: maybe[int64](d, -1, 0, 1, 2, 2, 3, 4, 5, 8, 10, 30),
		},
	}
	if d.chance(35) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)))
		p.DeletionGracePeriodSeconds = ptr.To(pick[int64](d, 0, 1, 3, 4, 6, 9, 20))
	}
	if one {
		if d.chance(12) {
			p.Spec.InitContainers = []corev1.Container{d.killed("side0", true)}
		}
		p.Spec.Containers = []corev1.Container{d.killed("c0", false)}
		return p
	}
	for i := range pick(d, 0, 0, 1, 1, 2, 3) {
		sidecar := d.chance(60)
		p.Spec.InitContainers = append(p.Spec.InitContainers, d.killed(initName(sidecar, i), sidecar))
	}
	for i := range pick(d, 1, 2, 3, 4) {
		p.Spec.Containers = append(p.Spec.Containers, d.killed(fmt.Sprintf("c%d", i), false))
	}
	if d.chance(5) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug0", Image: "busybox"}}}
	}
	return p
}

func initName(sidecar bool, i int) string {
	if sidecar {
		return fmt.Sprintf("side%d", i)
	}
	return fmt.Sprintf("init%d", i)
}

func (d dice) killed(name string, sidecar bool) corev1.Container {
	c := corev1.Container{Name: name, Image: "busybox", LivenessProbe: d.probe(45), StartupProbe: d.probe(40)}
	if sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	if h := d.preStop(name); h != nil {
		c.Lifecycle = &corev1.Lifecycle{PreStop: h}
	}
	return c
}

func (d dice) preStop(name string) *corev1.LifecycleHandler {
	switch d.IntN(7) {
	case 0, 1:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prestop", name}}}
	case 2, 3:
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: pick(d, "/", "") + "prestop/" + name, Port: intstr.FromInt32(8080), Host: pick(d, "", "", "10.9.8.7"),
			Scheme: pick(d, "", corev1.URISchemeHTTP, corev1.URISchemeHTTPS),
		}}
	case 4:
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: pick[int64](d, 0, 1, 2, 3, 5, 7, 15, 30)}}
	case 5:
		if d.chance(30) {
			return &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1), Host: "10.9.8.7"}}
		}
	}
	return nil
}

// hooksOf says what the hooks do. Few take exactly as long as they may.
func (d dice) hooksOf(c *Kill) {
	all := append(append([]corev1.Container{}, c.Pod.Spec.InitContainers...), c.Pod.Spec.Containers...)
	for i := range all {
		if all[i].Lifecycle == nil {
			continue
		}
		h := all[i].Lifecycle.PreStop
		graces := graceOf(c, &all[i])
		if d.chance(15) {
			clear(graces)
		}
		if h.Sleep != nil {
			for graces[float64(h.Sleep.Seconds)] {
				h.Sleep.Seconds++
			}
			continue
		}
		if h.TCPSocket != nil || d.chance(15) && h.HTTPGet == nil {
			continue
		}
		hook := recordings.Hook{Seconds: pick(d, 0, 0.4, 0.5, 1, 1.5, 1.9, 2, 2.5, 3, 4, 5, 6, 8.5, 10, 15, 31)}
		switch {
		case h.Exec != nil:
			hook.Error = pick(d, "", "", "command terminated with exit code 1")
		default:
			hook.Error = pick(d, "", "", "connection refused", "http-on-https")
			hook.HTTPStatus = pick(d, 0, 0, 0, 500)
		}
		for graces[hook.Seconds] || graces[2*hook.Seconds] {
			hook.Seconds += 0.3
		}
		c.Hooks["prestop/"+all[i].Name] = hook
	}
}

// graceOf returns the periods that a container may be given.
func graceOf(c *Kill, container *corev1.Container) map[float64]bool {
	out := map[float64]bool{2: true}
	list := []*int64{c.GracePeriodOverride, c.Pod.DeletionGracePeriodSeconds, c.Pod.Spec.TerminationGracePeriodSeconds}
	for _, p := range []*corev1.Probe{container.LivenessProbe, container.StartupProbe} {
		if p != nil {
			list = append(list, p.TerminationGracePeriodSeconds)
		}
	}
	for _, g := range list {
		if g != nil {
			out[float64(*g)] = true
		}
	}
	return out
}

func (d dice) killContainer(c *Kill) {
	name := "c0"
	if len(c.Pod.Spec.InitContainers) > 0 {
		name = "side0"
	}
	c.Runtime.Containers = []recordings.RunningContainer{{
		ID: name + "-id", Name: name, StopSeconds: pick(d, stopSeconds...),
		StopError: pick(d, "", "", "", "", "", "", "NotFound", "PlainNotFound", "Unknown", "DeadlineExceeded"),
	}}
	c.KillContainer = &recordings.KillContainer{
		ContainerName: name, ContainerID: name + "-id",
		Message: pick(d, "", "killing", "FailedPostStartHook", "Container c0 failed liveness probe, will be restarted", "stop of "+name+"-id requested"),
		Reason:  pick(d, "", "Unknown", "FailedPostStartHook", "RestartAllContainers", "LivenessProbe", "StartupProbe"),
	}
	if d.chance(2) {
		c.KillContainer.ContainerName = "nosuch"
	}
}

// runningOf makes what runs of a pod.
func (d dice) runningOf(c *Kill) {
	add := func(id, name string) {
		c.Runtime.Containers = append(c.Runtime.Containers, recordings.RunningContainer{
			ID: id, Name: name, StopSeconds: pick(d, stopSeconds...),
			StopError: pick(d, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "NotFound", "PlainNotFound", "Unknown", "DeadlineExceeded"),
		})
	}
	c.Runtime.Containers = []recordings.RunningContainer{}
	for _, container := range containersOf(c.Pod) {
		plainInit := container.RestartPolicy == nil && container.Name[0] == 'i'
		if plainInit && d.chance(75) || d.chance(10) {
			continue
		}
		add(container.Name+"-id", container.Name)
		if c.Mode != "" && d.chance(3) {
			add(container.Name+"-id2", container.Name)
		}
	}
	if c.Mode != "" && d.chance(4) {
		add("ghost-id", "ghost")
	}
}

func (d dice) sandboxesOf(c *Kill) {
	c.Runtime.Sandboxes = []recordings.RunningSandbox{{ID: "sb1", State: "READY", IP: pick(d, "10.1.1.1", "10.1.1.1", "fd00::5")}}
	if c.Mode != "killPod" {
		if c.Mode == "" {
			c.Runtime.Sandboxes[0].IP = "10.1.1.1"
		}
		return
	}
	c.Runtime.Sandboxes[0].StopError = pick(d, "", "", "", "", "", "", "", "", "", "NotFound", "PlainNotFound", "Unknown", "DeadlineExceeded")
	if d.chance(20) {
		c.Runtime.Sandboxes = append(c.Runtime.Sandboxes, recordings.RunningSandbox{ID: "sb0", State: "NOTREADY", StopError: pick(d, "", "", "NotFound", "Unknown")})
	}
}

// orphanSpec is what is known of a pod whose containers only are known.
func orphanSpec(p *corev1.Pod) corev1.PodSpec {
	out := corev1.PodSpec{}
	for _, c := range containersOf(p) {
		out.Containers = append(out.Containers, corev1.Container{Name: c.Name})
	}
	return out
}

// withoutPod leaves what the kubelet wrote down on the container.
func (d dice) withoutPod(c *Kill) {
	p := c.Pod
	c.Pod = nil
	if d.chance(8) {
		c.Runtime.Containers = []recordings.RunningContainer{}
		return
	}
	rc := &c.Runtime.Containers[0]
	rc.Labels = map[string]string{
		"io.kubernetes.container.name": rc.Name, "io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace,
		"io.kubernetes.pod.uid": string(p.UID),
	}
	rc.Annotations = map[string]string{
		"io.kubernetes.container.hash": "fbdb6ee0", "io.kubernetes.container.restartCount": "0",
		"io.kubernetes.container.terminationMessagePath": "", "io.kubernetes.container.terminationMessagePolicy": "",
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		rc.Annotations["io.kubernetes.pod.terminationGracePeriod"] = strconv.FormatInt(*s, 10)
	}
	if s := p.DeletionGracePeriodSeconds; s != nil {
		rc.Annotations["io.kubernetes.pod.deletionGracePeriod"] = strconv.FormatInt(*s, 10)
	}
	for _, container := range containersOf(p) {
		if container.Name == rc.Name && container.Lifecycle != nil {
			hook, err := json.Marshal(container.Lifecycle.PreStop)
			if err != nil {
				panic(err) // a handler is always JSON
			}
			rc.Annotations["io.kubernetes.container.preStopHandler"] = string(hook)
		}
	}
}
