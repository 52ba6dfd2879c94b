// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// RuntimeName is what container IDs begin with.
const RuntimeName = "fakeRuntime"

// ContainerID returns the kubelet's form of an ID.
func ContainerID(id string) kubecontainer.ContainerID {
	return kubecontainer.ContainerID{Type: RuntimeName, ID: id}
}

// Kubelet returns a status as the kubelet holds it.
func Kubelet(s *recordings.PodStatus) *kubecontainer.PodStatus {
	out := &kubecontainer.PodStatus{ID: types.UID(s.ID), Name: s.Name, Namespace: s.Namespace, IPs: s.IPs}
	byID := map[string]*kubecontainer.Status{}
	for i := range s.Containers {
		c := kubeletContainer(&s.Containers[i])
		byID[c.ID.ID] = c
		out.ContainerStatuses = append(out.ContainerStatuses, c)
	}
	for _, id := range s.ActiveContainerIDs {
		out.ActiveContainerStatuses = append(out.ActiveContainerStatuses, byID[id])
	}
	for i := range s.Sandboxes {
		out.SandboxStatuses = append(out.SandboxStatuses, kubeletSandbox(&s.Sandboxes[i], s))
	}
	return out
}

func kubeletContainer(c *recordings.Container) *kubecontainer.Status {
	return &kubecontainer.Status{
		ID: ContainerID(c.ID), Name: c.Name, State: kubecontainer.State(c.State), ExitCode: c.ExitCode,
		Reason: c.Reason, Message: c.Message, Hash: c.Hash, RestartCount: c.RestartCount,
		CreatedAt: c.CreatedAt.Time, StartedAt: c.StartedAt.Time, FinishedAt: c.FinishedAt.Time,
		Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef,
	}
}

func kubeletSandbox(s *recordings.Sandbox, of *recordings.PodStatus) *runtimeapi.PodSandboxStatus {
	out := &runtimeapi.PodSandboxStatus{
		Id: s.ID, CreatedAt: s.CreatedAt,
		State:    runtimeapi.PodSandboxState(runtimeapi.PodSandboxState_value["SANDBOX_"+s.State]),
		Metadata: &runtimeapi.PodSandboxMetadata{Attempt: s.Attempt, Name: of.Name, Namespace: of.Namespace, Uid: of.ID},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{
			Network: runtimeapi.NamespaceMode(runtimeapi.NamespaceMode_value[s.NetworkNamespace]),
		}}},
	}
	if s.Network != nil {
		out.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: s.Network.IP}
		for _, ip := range s.Network.AdditionalIPs {
			out.Network.AdditionalIps = append(out.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return out
}

// Verdicts are a probe's results by container ID.
type Verdicts map[string]string

var _ results.Manager = Verdicts{}

// Get implements results.Manager.
func (v Verdicts) Get(id kubecontainer.ContainerID) (results.Result, bool) {
	verdict, found := v[id.ID]
	switch verdict {
	case "success":
		return results.Success, found
	case "failure":
		return results.Failure, found
	default:
		return results.Unknown, found
	}
}

// Set implements results.Manager.
func (Verdicts) Set(kubecontainer.ContainerID, results.Result, *corev1.Pod) {}

// Remove implements results.Manager.
func (Verdicts) Remove(kubecontainer.ContainerID) {}

// Updates implements results.Manager.
func (Verdicts) Updates() <-chan results.Update { return nil }
