// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

// Conditions say what people should know about the pod's place: volumes that could
// not be changed yet, and a cgroup that is gone although containers run.
func (m *Manager) Conditions(ctx context.Context, pod *corev1.Pod, observed *plan.PodStatus) []corev1.PodCondition {
	conditions := m.volumes.Conditions(pod.UID)
	if c := m.cgroupCondition(ctx, pod, runningIDs(observed)); c != nil {
		conditions = append(conditions, *c)
	}
	return conditions
}

// OutsideCgroup says that the pod's cgroup is gone, or was made again since, and that
// all its running containers are proved to run in another one. Any doubt is false.
// (The kubelet kills a pod for any failed look at its cgroup: kubelet.go:SyncPod.)
func (m *Manager) OutsideCgroup(ctx context.Context, pod *corev1.Pod, observed *plan.PodStatus) bool {
	ids := runningIDs(observed)
	if len(ids) == 0 || slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool { return c.State == plan.ContainerUnknown }) {
		return false
	}
	_, outside := m.cgroups.Outside(ctx, pod.UID, ids)
	return outside
}

// OOMKills is how many processes of the pod the kernel has killed for memory since its
// cgroup was made; false where that is not known.
func (m *Manager) OOMKills(uid types.UID) (int64, bool) { return m.cgroups.OOMKills(uid) }

func (m *Manager) cgroupCondition(ctx context.Context, pod *corev1.Pod, ids []string) *corev1.PodCondition {
	if len(ids) == 0 {
		return nil
	}
	c := &corev1.PodCondition{Type: v1alpha1.ConditionPodCgroupMissing, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonCgroupMissing}
	path := m.cgroups.Path(pod.UID)
	state, outside := m.cgroups.Outside(ctx, pod.UID, ids)
	switch {
	case outside:
		c.Reason = v1alpha1.ReasonContainersOutsideCgroup
		c.Message = "the cgroup " + path + " is gone, or was made again, and the containers run outside of it, without the pod's limits"
	case state == podcgroup.Present:
		return nil
	case state == podcgroup.Hidden:
		c.Status, c.Reason = corev1.ConditionUnknown, v1alpha1.ReasonCgroupNotVisible
		c.Message = "the cgroup " + path + " cannot be looked for: a cgroup file system cannot be read; the containers keep running"
	default:
		c.Message = "the cgroup " + path + " is gone; the containers keep running, and the next start makes it again"
	}
	return c
}

// runningIDs are the containers that run.
func runningIDs(observed *plan.PodStatus) []string {
	var ids []string
	for i := range observed.Containers {
		if observed.Containers[i].State == plan.ContainerRunning {
			ids = append(ids, observed.Containers[i].ID)
		}
	}
	return ids
}
