// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func sandboxState(s runtimeapi.PodSandboxState) plan.SandboxState {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return plan.SandboxReady
	}
	return plan.SandboxNotReady
}

// containerState: a state that is not known is "unknown". (kubelet
// kuberuntime/helpers.go:toKubeContainerState)
func containerState(s runtimeapi.ContainerState) plan.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return plan.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return plan.ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return plan.ContainerExited
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
	}
	return plan.ContainerUnknown
}

func convertSandbox(s *runtimeapi.PodSandboxStatus) plan.SandboxStatus {
	out := plan.SandboxStatus{
		ID:               s.GetId(),
		State:            sandboxState(s.GetState()),
		Attempt:          s.GetMetadata().GetAttempt(),
		CreatedAt:        at(s.GetCreatedAt()),
		NetworkNamespace: s.GetLinux().GetNamespaces().GetOptions().GetNetwork().String(),
		Hash:             s.GetAnnotations()[AnnotationPodHash],
	}
	if network := s.GetNetwork(); network != nil {
		out.Network = &plan.SandboxNetwork{IP: network.GetIp()}
		for _, ip := range network.GetAdditionalIps() {
			out.Network.AdditionalIPs = append(out.Network.AdditionalIPs, ip.GetIp())
		}
	}
	return out
}

// convertContainer converts a status without its termination message. (kubelet
// kuberuntime_container.go:toKubeContainerStatus)
func convertContainer(s *runtimeapi.ContainerStatus) (plan.ContainerStatus, []error) {
	recorded, warnings := readContainer(s.GetAnnotations(), s.GetMetadata().GetAttempt())
	out := plan.ContainerStatus{
		ID:           s.GetId(),
		Name:         containerName(s.GetLabels(), s.GetMetadata()),
		PodUID:       s.GetLabels()[labelPodUID],
		SandboxID:    recorded.record.Sandbox,
		State:        containerState(s.GetState()),
		CreatedAt:    at(s.GetCreatedAt()),
		Image:        s.GetImage().GetImage(),
		ImageID:      cmp.Or(s.GetImageId(), s.GetImageRef()),
		ImageRef:     s.GetImageRef(),
		Hash:         s.GetAnnotations()[AnnotationDefinitionHash],
		RestartCount: recorded.restartCount,
		StopSignal:   signalName(s.GetStopSignal()),
		Resources:    reportedResources(s.GetResources().GetLinux()),
		User:         containerUser(s.GetUser()),
		LogPath:      s.GetLogPath(),
		Recorded:     recorded.Recorded,
	}
	if out.State != plan.ContainerCreated {
		out.StartedAt = at(s.GetStartedAt())
	}
	if out.State == plan.ContainerExited {
		out.Reason, out.Message = s.GetReason(), s.GetMessage()
		out.ExitCode, out.FinishedAt = s.GetExitCode(), at(s.GetFinishedAt())
	}
	return out, warnings
}

func containerUser(user *runtimeapi.ContainerUser) *corev1.ContainerUser {
	if user == nil {
		return nil
	}
	out := &corev1.ContainerUser{}
	if linux := user.GetLinux(); linux != nil {
		out.Linux = &corev1.LinuxContainerUser{
			UID:                linux.GetUid(),
			GID:                linux.GetGid(),
			SupplementalGroups: linux.GetSupplementalGroups(),
		}
	}
	return out
}

// CRI writes the + and - of real-time signals as words.
var (
	toCRISignal   = strings.NewReplacer("+", "PLUS", "-", "MINUS")
	fromCRISignal = strings.NewReplacer("RTMINPLUS", "RTMIN+", "RTMAXMINUS", "RTMAX-")
)

// signalName is the API's name of a signal; "" when the runtime does not report it.
func signalName(s runtimeapi.Signal) string {
	if s == runtimeapi.Signal_RUNTIME_DEFAULT {
		return ""
	}
	return fromCRISignal.Replace(s.String())
}

// signalNumber is CRI's number of a signal of the API.
func signalNumber(name corev1.Signal) (runtimeapi.Signal, bool) {
	n, ok := runtimeapi.Signal_value[toCRISignal.Replace(string(name))]
	return runtimeapi.Signal(n), ok && runtimeapi.Signal(n) != runtimeapi.Signal_RUNTIME_DEFAULT
}
