// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The kubelet's labels. (k8s.io/kubelet/pkg/types/labels.go)
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// The kubelet's annotations. (kubelet kuberuntime/labels.go)
const (
	annotationDeletionGrace     = "io.kubernetes.pod.deletionGracePeriod"
	annotationTerminationGrace  = "io.kubernetes.pod.terminationGracePeriod"
	annotationHash              = "io.kubernetes.container.hash"
	annotationRestartCount      = "io.kubernetes.container.restartCount"
	annotationTerminationPath   = "io.kubernetes.container.terminationMessagePath"
	annotationTerminationPolicy = "io.kubernetes.container.terminationMessagePolicy"
	annotationPreStop           = "io.kubernetes.container.preStopHandler"
	annotationPorts             = "io.kubernetes.container.ports"
)

// Labels and annotations of our own.
const (
	// LabelManagedBy marks every sandbox and container of a shim with
	// ManagedByShim.
	LabelManagedBy = "managedworkload.dev/managed-by"
	// ManagedByShim is the value of LabelManagedBy.
	ManagedByShim = "shim"
	// LabelInstance names the shim, by its node.
	LabelInstance = "managedworkload.dev/instance"
	// LabelCluster is the identity of the cluster.
	LabelCluster = "managedworkload.dev/cluster"
	// AnnotationDefinitionHash is the definition a container was created with.
	AnnotationDefinitionHash = "managedworkload.dev/definition-hash"
	// AnnotationPodHash is the pod definition a sandbox was created with.
	AnnotationPodHash = "managedworkload.dev/pod-hash"
	// AnnotationRecord holds what the kubelet's annotations lack, as JSON.
	AnnotationRecord = "managedworkload.dev/record"
)

// sandboxRecord is the value of AnnotationRecord on a sandbox.
type sandboxRecord struct {
	RestartPolicy                 corev1.RestartPolicy `json:"restartPolicy,omitempty"`
	TerminationGracePeriodSeconds *int64               `json:"grace,omitempty"`
	DeletionGracePeriodSeconds    *int64               `json:"deletionGrace,omitempty"`
	HostNetwork                   bool                 `json:"hostNetwork,omitempty"`
}

// containerRecord is the value of AnnotationRecord on a container: with the
// kubelet's annotations it is enough to restore the pod for a kill.
type containerRecord struct {
	// Sandbox is the ID of the container's sandbox: CRI's status lacks it.
	Sandbox string `json:"sandbox,omitempty"`
	// Index in the template's list of containers or init containers.
	Index int `json:"index"`
	// Init says in which of the two.
	Init bool `json:"init,omitempty"`
	// RestartPolicy is the container's own.
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`
	// Resources are those of the creation.
	Resources *plan.Resources `json:"resources,omitempty"`
	// PodRestartPolicy and HostNetwork are the pod's, for a container whose
	// sandbox is gone.
	PodRestartPolicy corev1.RestartPolicy `json:"podRestartPolicy,omitempty"`
	HostNetwork      bool                 `json:"hostNetwork,omitempty"`
	// RestartedAt is the value of v1alpha1.AnnotationRestartedAt.
	RestartedAt string `json:"restartedAt,omitempty"`
}

// sidecar reports whether the record is of an init container that keeps
// running.
func (r containerRecord) sidecar() bool {
	return r.Init && r.RestartPolicy != nil && *r.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// markers returns the labels by which a shim knows its own.
func (c *Client) markers() map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedByShim,
		LabelInstance:  c.config.Instance,
		LabelCluster:   *c.clusterID.Load(),
	}
}

// podLabels are the kubelet's labels that identify a pod.
func podLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		labelPodName:      pod.Name,
		labelPodNamespace: pod.Namespace,
		labelPodUID:       string(pod.UID),
	}
}

// sandboxLabels: the pod's own, the kubelet's, ours; later ones win. (kubelet
// kuberuntime/labels.go:newPodLabels)
func (c *Client) sandboxLabels(pod *corev1.Pod) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+6)
	maps.Copy(labels, pod.Labels)
	maps.Copy(labels, podLabels(pod))
	maps.Copy(labels, c.markers())
	return labels
}

// sandboxAnnotations: the pod's own and ours. (kubelet
// kuberuntime/labels.go:newPodAnnotations)
func sandboxAnnotations(pod *corev1.Pod) (map[string]string, error) {
	record, err := json.Marshal(sandboxRecord{
		RestartPolicy:                 pod.Spec.RestartPolicy,
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		DeletionGracePeriodSeconds:    pod.DeletionGracePeriodSeconds,
		HostNetwork:                   pod.Spec.HostNetwork,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the record of a pod: %w", err)
	}
	annotations := make(map[string]string, len(pod.Annotations)+2)
	maps.Copy(annotations, pod.Annotations)
	annotations[AnnotationPodHash] = plan.HashPod(pod)
	annotations[AnnotationRecord] = string(record)
	return annotations, nil
}

// containerLabels: the kubelet's and ours. (kubelet
// kuberuntime/labels.go:newContainerLabels)
func (c *Client) containerLabels(pod *corev1.Pod, container *corev1.Container) map[string]string {
	labels := podLabels(pod)
	labels[labelContainerName] = container.Name
	maps.Copy(labels, c.markers())
	return labels
}

// containerAnnotations: the kubelet's and ours. (kubelet
// kuberuntime/labels.go:newContainerAnnotations)
func containerAnnotations(pod *corev1.Pod, container *corev1.Container, options plan.CreateOptions) (map[string]string, error) {
	annotations, err := kubeletAnnotations(pod, container, options.Attempt)
	if err != nil {
		return nil, err
	}
	resources := plan.ResourcesOf(&container.Resources)
	record := containerRecord{
		Index:            -1,
		Sandbox:          options.SandboxID,
		Resources:        &resources,
		RestartPolicy:    container.RestartPolicy,
		PodRestartPolicy: pod.Spec.RestartPolicy,
		HostNetwork:      pod.Spec.HostNetwork,
		RestartedAt:      pod.Annotations[v1alpha1.AnnotationRestartedAt],
	}
	if at := plan.PlaceOf(pod, container.Name); at != nil {
		record.Index, record.Init = at.Index, at.Init
	}
	if annotations[AnnotationRecord], err = encode("record", record); err != nil {
		return nil, err
	}
	annotations[AnnotationDefinitionHash] = plan.HashContainer(container)
	return annotations, nil
}

// kubeletAnnotations are those that the kubelet writes, in its formats.
func kubeletAnnotations(pod *corev1.Pod, container *corev1.Container, restartCount int) (map[string]string, error) {
	hash, err := kubeletHash(container)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{
		annotationHash:              hash,
		annotationRestartCount:      strconv.Itoa(restartCount),
		annotationTerminationPath:   container.TerminationMessagePath,
		annotationTerminationPolicy: string(container.TerminationMessagePolicy),
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		annotations[annotationDeletionGrace] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		annotations[annotationTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	if l := container.Lifecycle; l != nil && l.PreStop != nil {
		if annotations[annotationPreStop], err = encode("preStop hook", l.PreStop); err != nil {
			return nil, err
		}
	}
	if len(container.Ports) > 0 {
		if annotations[annotationPorts], err = encode("ports", container.Ports); err != nil {
			return nil, err
		}
	}
	return annotations, nil
}

// kubeletHash identifies name and image as the kubelet does, in hexadecimal.
// (kubelet container/helpers.go:HashContainer)
func kubeletHash(container *corev1.Container) (string, error) {
	fields, err := json.Marshal(map[string]string{"name": container.Name, "image": container.Image})
	if err != nil {
		return "", fmt.Errorf("hash container %q: %w", container.Name, err)
	}
	hash := fnv.New32a()
	// A hash takes everything.
	_, _ = hash.Write([]byte(dump.ForHash(fields)))
	return strconv.FormatUint(uint64(hash.Sum32()), 16), nil
}

func encode(what string, value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encode the %s of a container: %w", what, err)
	}
	return string(data), nil
}
