// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"math"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// quotaPeriod is the kubelet's default period of CPU quotas.
const quotaPeriod = 100 * time.Millisecond

// cgroups stands for the pod's cgroup: it has what it was given last.
type cgroups struct {
	*cm.FakePodContainerManager
	memory, quota *int64
	period        uint64
	shares        uint64
}

// machineMemory is how many bytes of memory this machine has, which is what the
// shim goes by.
func machineMemory() uint64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}

// create makes the cgroup, unless it is there, and reports whether it did. (kubelet.go:SyncPod)
func (c *cgroups) create(pod *corev1.Pod) bool {
	if c.memory != nil {
		return false
	}
	c.memory, c.quota = ptr.To[int64](math.MaxInt64), ptr.To[int64](-1)
	c.set(cm.ResourceConfigForPod(pod, true, uint64(quotaPeriod/time.Microsecond), false, kubeletconfig.NoneMemoryReservationPolicy))
	return true
}

func (c *cgroups) set(r *cm.ResourceConfig) {
	if r.Memory != nil {
		c.memory = ptr.To(*r.Memory)
	}
	if r.CPUQuota != nil {
		c.quota = ptr.To(*r.CPUQuota)
	}
	if r.CPUPeriod != nil {
		c.period = *r.CPUPeriod
	}
	if r.CPUShares != nil {
		c.shares = *r.CPUShares
	}
}

// GetPodCgroupConfig implements cm.PodContainerManager.
func (c *cgroups) GetPodCgroupConfig(_ *corev1.Pod, name corev1.ResourceName) (*cm.ResourceConfig, error) {
	if name == corev1.ResourceMemory {
		return &cm.ResourceConfig{Memory: ptr.To(*c.memory)}, nil
	}
	return &cm.ResourceConfig{CPUQuota: ptr.To(*c.quota), CPUPeriod: ptr.To(c.period), CPUShares: ptr.To(c.shares)}, nil
}

// SetPodCgroupConfig implements cm.PodContainerManager.
func (c *cgroups) SetPodCgroupConfig(_ klog.Logger, _ *corev1.Pod, r *cm.ResourceConfig) error {
	c.set(r)
	return nil
}

// containerManager is the kubelet's fake, but for the pod's cgroup.
type containerManager struct {
	*cm.FakeContainerManager
	cgroups *cgroups
}

// NewPodContainerManager implements cm.ContainerManager.
func (m containerManager) NewPodContainerManager() cm.PodContainerManager { return m.cgroups }

// PodCPUAndMemoryStats tells what the pod and its containers use.
func (*node) PodCPUAndMemoryStats(_ context.Context, _ *corev1.Pod, status *kubecontainer.PodStatus) (*statsapi.PodStats, error) {
	use := &statsapi.MemoryStats{UsageBytes: ptr.To[uint64](fakecri.MemoryUse)}
	out := &statsapi.PodStats{Memory: use}
	for _, c := range status.ContainerStatuses {
		if c.State == kubecontainer.ContainerStateRunning {
			out.Containers = append(out.Containers, statsapi.ContainerStats{Name: c.Name, Memory: use})
		}
	}
	return out, nil
}

func (s RuntimeServices) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: resources.GetLinux(), Windows: resources.GetWindows(),
	})
	return err
}

// UpdatePodSandboxResources only tells the runtime of the pod's cgroup.
func (RuntimeServices) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
