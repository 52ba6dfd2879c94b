// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// resourceValue resolves a resourceFieldRef. A limit that is not set is the pod's,
// or else the node's capacity. (pkg/api/v1/resource/helpers.go:
// ExtractContainerResourceValue, kubelet_resources.go:defaultPodLimitsForDownwardAPI)
func (m *Manager) resourceValue(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
		if c = podspec.Container(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "limits":
		quantity = m.limit(pod, c, corev1.ResourceName(name))
	case "requests":
		quantity = c.Resources.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	switch {
	case name == string(corev1.ResourceCPU):
		return divide(quantity.MilliValue(), ref.Divisor, (*resource.Quantity).MilliValue), nil
	case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage),
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return divide(quantity.Value(), ref.Divisor, (*resource.Quantity).Value), nil
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
}

func (m *Manager) limit(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName) resource.Quantity {
	if limit := c.Resources.Limits[name]; !limit.IsZero() {
		return limit
	}
	if pod.Spec.Resources != nil {
		if limit := pod.Spec.Resources.Limits[name]; !limit.IsZero() {
			return limit
		}
	}
	return m.capacity[name]
}

// divide returns value in units of the divisor, rounded up.
func divide(value int64, divisor resource.Quantity, unit func(*resource.Quantity) int64) string {
	by := unit(&divisor)
	if divisor.IsZero() {
		by = unit(resource.NewQuantity(1, resource.DecimalSI))
	}
	if by == 0 { // a divisor below the unit
		by = 1
	}
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(by))), 10)
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
