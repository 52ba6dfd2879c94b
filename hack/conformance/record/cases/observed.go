// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// observed makes what the kubelet sees of a pod: a pod on its way, which has
// come up to one of its containers, or anything at all.
func (d dice) observed(p *corev1.Pod) recordings.PodStatus {
	s := recordings.PodStatus{
		ID: string(p.UID), Name: p.Name, Namespace: p.Namespace, IPs: []string{}, Sandboxes: d.sandboxes(p),
		Containers: []recordings.Container{},
	}
	if len(s.Sandboxes) > 0 && s.Sandboxes[0].State == "READY" && s.Sandboxes[0].Network != nil && s.Sandboxes[0].Network.IP != "" {
		s.IPs = []string{s.Sandboxes[0].Network.IP}
	}
	lists := d.allInstances(p)
	if d.chance(3) {
		lists = append(lists, d.instances("ghost", "busybox", 1))
	}
	s.Containers = d.interleaved(lists)
	d.settle(p, &s)
	return s
}

// allInstances makes the instances of each container of a pod.
func (d dice) allInstances(p *corev1.Pod) [][]recordings.Container {
	all := containersOf(p)
	reached := d.IntN(len(all) + 1)
	onItsWay, initialized := d.chance(40), d.chance(40)
	var lists [][]recordings.Container
	for i := range all {
		isInit := i < len(p.Spec.InitContainers)
		switch {
		case (onItsWay && i < reached || initialized) && isInit:
			lists = append(lists, d.passed(&all[i]))
		case onItsWay && !initialized && i > reached:
		case !onItsWay && d.chance(25):
		default:
			lists = append(lists, d.instances(all[i].Name, all[i].Image, pick(d, 1, 1, 1, 2, 3, 4)))
		}
	}
	return lists
}

// passed is an init container that is behind the pod: done, or a sidecar.
func (d dice) passed(c *corev1.Container) []recordings.Container {
	list := d.instances(c.Name, c.Image, pick(d, 1, 1, 1, 2))
	if d.chance(85) {
		list[0].State, list[0].ExitCode, list[0].Reason = "exited", 0, "Completed"
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			list[0].State, list[0].Reason = "running", ""
		}
	}
	return list
}

// instances makes instances of a container, newest first; older ones have exited.
func (d dice) instances(name, image string, n int) []recordings.Container {
	var list []recordings.Container
	for i := n - 1; i >= 0; i-- {
		c := recordings.Container{
			ID: fmt.Sprintf("%s-%d", name, i), Name: name, Image: image, RestartCount: i,
			ImageID: "sha256:" + name, ImageRef: "sha256:" + name,
		}
		d.state(&c)
		if i < n-1 && c.State != "exited" {
			c.State = "exited"
			d.exit(&c)
		}
		list = append(list, c)
	}
	return list
}

// state gives an instance a state.
func (d dice) state(c *recordings.Container) {
	c.State = pick(d, "exited", "exited", "exited", "exited", "running", "running", "running", "created", "unknown")
	c.ExitCode, c.Reason = 0, ""
	if c.State == "exited" {
		d.exit(c)
	}
}

func (d dice) exit(c *recordings.Container) {
	c.ExitCode = int(pick(d, append(exitCodes, 0, 0)...))
	switch c.ExitCode {
	case 0:
		c.Reason = "Completed"
	case 137:
		c.Reason = "OOMKilled"
	default:
		c.Reason = "Error"
	}
	if d.chance(2) {
		c.Reason = pick(d, "OOMKilled", "Error", "Completed", "ContainerStatusUnknown")
	}
}

// interleaved puts the instances of all containers into one order, newest first.
func (d dice) interleaved(lists [][]recordings.Container) []recordings.Container {
	out := []recordings.Container{}
	for {
		lists = slices.DeleteFunc(lists, func(l []recordings.Container) bool { return len(l) == 0 })
		if len(lists) == 0 {
			return out
		}
		i := d.IntN(len(lists))
		out = append(out, lists[i][0])
		lists[i] = lists[i][1:]
	}
}

// settle gives the instances times in their order, and hashes of the pod's
// definitions, or of others.
func (d dice) settle(p *corev1.Pod, s *recordings.PodStatus) {
	specs := containersOf(p)
	for i := range s.Containers {
		c := &s.Containers[i]
		created := recordedFrom.Add(time.Duration(len(s.Containers)-i) * time.Minute)
		c.CreatedAt, c.StartedAt, c.FinishedAt = recordings.Time{Time: created}, recordings.Time{Time: created.Add(time.Second)}, recordings.Time{}
		if c.State == "created" {
			c.StartedAt = recordings.Time{}
		}
		if c.State == "exited" {
			c.FinishedAt = recordings.Time{Time: created.Add(30 * time.Second)}
		}
		same := c.HashMatches == nil && d.chance(93) || c.HashMatches != nil && *c.HashMatches
		c.HashMatches, c.Hash = nil, 77
		for j := range specs {
			if specs[j].Name == c.Name {
				c.HashMatches, c.Hash = ptr.To(same), kubecontainer.HashContainer(&specs[j])
				if !same {
					c.Hash++
				}
			}
		}
	}
}

func (d dice) sandboxes(p *corev1.Pod) []recordings.Sandbox {
	list := []recordings.Sandbox{}
	n, attempt := pick(d, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2), pick[uint32](d, 0, 0, 0, 1, 1, 2, 5)
	for i := range n {
		// They are listed newest first.
		s := recordings.Sandbox{
			State: "READY", Attempt: attempt + uint32(n-1-i), CreatedAt: recordedFrom.Unix()*1e9 + int64(9-i)*1e9,
			NetworkNamespace: "POD", Network: &recordings.Network{IP: "10.0.0.1", AdditionalIPs: []string{}},
		}
		s.ID = fmt.Sprintf("sb-%s-%d", p.UID, s.Attempt)
		if p.Spec.HostNetwork {
			s.NetworkNamespace = "NODE"
		}
		if d.chance(6) {
			s.NetworkNamespace = pick(d, "POD", "NODE")
		}
		if i > 0 && d.chance(70) || d.chance(12) {
			s.State = "NOTREADY"
		}
		if d.chance(12) {
			s.Network.IP = ""
		} else if d.chance(4) {
			s.Network = nil
		}
		list = append(list, s)
	}
	return list
}
