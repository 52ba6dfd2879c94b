// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Added to the kubelet's package by an overlay, to reach what it does not export.

package kubelet

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// RecordedReason is why a container is not started.
type RecordedReason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// RecordedStatus is what the kubelet makes of a pod.
type RecordedStatus struct {
	Convert   *v1.PodStatus
	Phase     v1.PodPhase
	MainsSeen bool
	Generate  v1.PodStatus
}

// RecordStatus calls convertStatusToAPIStatus, getPhase and generateAPIPodStatus
// of a kubelet that has no workers of probes and knows no earlier status than
// the pod's.
func RecordStatus(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, reasons map[string]RecordedReason,
	startup proberesults.Manager, terminal bool) RecordedStatus {
	statuses := status.NewManager(nil, kubepod.NewBasicPodManager(), nil, nil)
	kl := &Kubelet{
		statusManager: statuses, reasonCache: NewReasonCache(), containerManager: cm.NewStubContainerManager(),
		probeManager: prober.NewManager(statuses, proberesults.NewManager(), proberesults.NewManager(), startup, nil, &record.FakeRecorder{}),
	}
	for name, r := range reasons {
		kl.reasonCache.add(pod.UID, name, errors.New(r.Reason), r.Message)
	}
	converted := kl.convertStatusToAPIStatus(ctx, pod.DeepCopy(), podStatus, *pod.Status.DeepCopy())
	all := append(append([]v1.ContainerStatus{}, converted.ContainerStatuses...), converted.InitContainerStatuses...)
	seen := kubecontainer.HasAnyActiveRegularContainerStarted(&pod.Spec, podStatus)
	return RecordedStatus{
		Convert: converted.DeepCopy(), MainsSeen: seen,
		Phase:    getPhase(klog.FromContext(ctx), pod, all, terminal, seen),
		Generate: kl.generateAPIPodStatus(ctx, pod.DeepCopy(), podStatus, terminal),
	}
}

// RecordEffectiveGracePeriod calls calculateEffectiveGracePeriod.
func RecordEffectiveGracePeriod(current int64, pod *v1.Pod, override *int64) (int64, bool) {
	var options *KillPodOptions
	if override != nil {
		options = &KillPodOptions{PodTerminationGracePeriodSecondsOverride: override}
	}
	return calculateEffectiveGracePeriod(&podSyncStatus{gracePeriod: current}, pod, options)
}
