// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"maps"
	"math"
	"runtime"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/downwardapi"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// resourceValue resolves a resourceFieldRef. A limit that is not set is the pod's,
// or else the node's capacity. (kubelet_resources.go:defaultPodLimitsForDownwardAPI)
func (m *Manager) resourceValue(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
		if c = podspec.Container(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	return downwardapi.Resource(c, ref, m.unsetLimits(pod))
}

// unsetLimits is what limits are that a container does not have.
func (m *Manager) unsetLimits(pod *corev1.Pod) corev1.ResourceList {
	if pod.Spec.Resources == nil {
		return m.capacity
	}
	unset := maps.Clone(m.capacity)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limit := pod.Spec.Resources.Limits[name]; !limit.IsZero() {
			unset[name] = limit
		}
	}
	return unset
}

// NodeCapacity is what the node has, by the file system of dir; what cannot be found out is left out.
func NodeCapacity(dir string) corev1.ResourceList {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		capacity[corev1.ResourceMemory] = bytesOf(info.Totalram, uint64(info.Unit))
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil && fs.Bsize > 0 {
		capacity[corev1.ResourceEphemeralStorage] = bytesOf(fs.Blocks, uint64(fs.Bsize))
	}
	return capacity
}

func bytesOf(count, unit uint64) resource.Quantity {
	total := min(count*unit, math.MaxInt64)
	return *resource.NewQuantity(int64(total), resource.BinarySI)
}
