// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// recordedContainer is what a container's labels and annotations say.
type recordedContainer struct {
	plan.Recorded
	record       containerRecord
	restartCount int
}

// errNoHandler: a recorded hook that would do nothing.
var errNoHandler = errors.New("it names no handler")

// readContainer reads a container's annotations. What can't be read is left at
// what is there without it, and named in the warnings: a broken annotation must
// never keep a container from being seen or killed. attempt is the fallback for
// the restart count. (kubelet kuberuntime/labels.go:getContainerInfoFromAnnotations)
func readContainer(annotations map[string]string, attempt uint32) (recordedContainer, []error) {
	r := reader{annotations: annotations}
	out := recordedContainer{restartCount: int(min(attempt, math.MaxInt32))}
	out.TerminationMessagePath = annotations[annotationTerminationPath]
	out.TerminationMessagePolicy = corev1.TerminationMessagePolicy(annotations[annotationTerminationPolicy])
	if count := r.number(annotationRestartCount, 32); count != nil {
		out.restartCount = int(*count)
	}
	out.TerminationGracePeriodSeconds = r.number(annotationTerminationGrace, 64)
	out.DeletionGracePeriodSeconds = r.number(annotationDeletionGrace, 64)
	out.PreStop = r.hook(annotationPreStop)
	var ports []corev1.ContainerPort
	if r.json(annotationPorts, &ports) {
		out.Ports = ports
	}
	record := containerRecord{Index: -1}
	if r.json(AnnotationRecord, &record) {
		out.record = record
	} else {
		out.record = containerRecord{Index: -1}
	}
	if record := &out.record; record.Index >= 0 {
		out.Place = &plan.Place{Index: record.Index, Init: record.Init, Sidecar: record.sidecar()}
	}
	out.RestartedAt = out.record.RestartedAt
	out.Resources = out.record.Resources
	return out, r.warnings
}

// readSandbox reads a sandbox's annotations as readContainer does a container's.
func readSandbox(annotations map[string]string) (sandboxRecord, []error) {
	r := reader{annotations: annotations}
	var record sandboxRecord
	if !r.json(AnnotationRecord, &record) {
		record = sandboxRecord{}
	}
	return record, r.warnings
}

// reader reads annotations and gathers what can't be read.
type reader struct {
	annotations map[string]string
	warnings    []error
}

func (r *reader) warn(key string, err error) {
	r.warnings = append(r.warnings, fmt.Errorf("annotation %s: %w", key, err))
}

// number reads a number that is not negative; nil if there is none.
func (r *reader) number(key string, bits int) *int64 {
	value, found := r.annotations[key]
	if !found {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, bits)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is negative", n)
	}
	if err != nil {
		r.warn(key, err)
		return nil
	}
	return &n
}

// json reads a JSON value; false if there is none or it is malformed.
func (r *reader) json(key string, into any) bool {
	value, found := r.annotations[key]
	if !found {
		return false
	}
	if err := json.Unmarshal([]byte(value), into); err != nil {
		r.warn(key, err)
		return false
	}
	return true
}

// hook reads a handler; nil if there is none.
func (r *reader) hook(key string) *corev1.LifecycleHandler {
	var hook corev1.LifecycleHandler
	if !r.json(key, &hook) {
		return nil
	}
	if hook.Exec == nil && hook.HTTPGet == nil && hook.Sleep == nil && hook.TCPSocket == nil {
		r.warn(key, errNoHandler)
		return nil
	}
	return &hook
}

// RecordedPod restores a pod from nothing but labels and annotations, as far as
// killing it needs: identity, grace periods, restart policies, and its
// containers in the template's order with hooks and ports. Only containers that
// the runtime still has are in it; nil when it has nothing of that pod. (kubelet
// kuberuntime_container.go:restoreSpecsFromContainerLabels)
func (c *Client) RecordedPod(ctx context.Context, uid types.UID) (*corev1.Pod, error) {
	sandboxes, containers, err := c.listPod(ctx, uid)
	if err != nil {
		return nil, err
	}
	if len(sandboxes) == 0 && len(containers) == 0 {
		return nil, nil
	}
	pod, warnings := restorePod(sandboxes, containers)
	warn(logr.FromContextOrDiscard(ctx).WithValues("podUID", uid), warnings)
	return pod, nil
}

func warn(logger logr.Logger, warnings []error) {
	if len(warnings) > 0 {
		logger.Info("Ignored annotations of the runtime that cannot be read", "warning", errors.Join(warnings...).Error())
	}
}

// restorePod restores a pod from its sandboxes and containers, each newest
// first: newer ones win.
func restorePod(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) (*corev1.Pod, []error) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	var warnings []error
	for _, s := range sandboxes {
		warnings = append(warnings, addSandbox(pod, s)...)
	}
	warnings = append(warnings, addContainers(pod, containers)...)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	return pod, warnings
}

// addSandbox adds what a sandbox says and a newer one did not.
func addSandbox(pod *corev1.Pod, s *runtimeapi.PodSandbox) []error {
	identify(pod, s.GetLabels())
	record, warnings := readSandbox(s.GetAnnotations())
	if pod.Labels == nil {
		pod.Labels = without(s.GetLabels(),
			labelPodName, labelPodNamespace, labelPodUID, LabelManagedBy, LabelInstance, LabelCluster)
		pod.Annotations = without(s.GetAnnotations(), AnnotationPodHash, AnnotationRecord)
		pod.Spec.HostNetwork = record.HostNetwork
	}
	pod.Spec.RestartPolicy = cmp.Or(pod.Spec.RestartPolicy, record.RestartPolicy)
	pod.Spec.TerminationGracePeriodSeconds = cmp.Or(pod.Spec.TerminationGracePeriodSeconds, record.TerminationGracePeriodSeconds)
	pod.DeletionGracePeriodSeconds = cmp.Or(pod.DeletionGracePeriodSeconds, record.DeletionGracePeriodSeconds)
	return warnings
}

// identify sets the pod's identity from labels, unless it is known.
func identify(pod *corev1.Pod, labels map[string]string) {
	pod.Name = cmp.Or(pod.Name, labels[labelPodName])
	pod.Namespace = cmp.Or(pod.Namespace, labels[labelPodNamespace])
	pod.UID = cmp.Or(pod.UID, types.UID(labels[labelPodUID]))
}

func without(from map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(from))
	for k, v := range from {
		if !slices.Contains(keys, k) {
			out[k] = v
		}
	}
	return out
}

// restored is a container with its place in the template.
type restored struct {
	corev1.Container
	index int
}

// addContainers adds the newest container of each name. The grace periods of
// the newest container win over the sandbox's, because they may have changed since.
func addContainers(pod *corev1.Pod, containers []*runtimeapi.Container) []error {
	var warnings []error
	var inits, mains []restored
	seen := map[string]bool{}
	var grace, deletion *int64
	for _, c := range newestFirst(containers) {
		name := containerName(c.GetLabels(), c.GetMetadata())
		if seen[name] {
			continue
		}
		seen[name] = true
		identify(pod, c.GetLabels())
		r, w := readContainer(c.GetAnnotations(), c.GetMetadata().GetAttempt())
		warnings = append(warnings, w...)
		grace = cmp.Or(grace, r.TerminationGracePeriodSeconds)
		deletion = cmp.Or(deletion, r.DeletionGracePeriodSeconds)
		pod.Spec.RestartPolicy = cmp.Or(pod.Spec.RestartPolicy, r.record.PodRestartPolicy)
		pod.Spec.HostNetwork = pod.Spec.HostNetwork || r.record.HostNetwork
		if r.record.Init {
			inits = append(inits, restoreContainer(name, c, r))
		} else {
			mains = append(mains, restoreContainer(name, c, r))
		}
	}
	pod.Spec.TerminationGracePeriodSeconds = cmp.Or(grace, pod.Spec.TerminationGracePeriodSeconds)
	pod.DeletionGracePeriodSeconds = cmp.Or(deletion, pod.DeletionGracePeriodSeconds)
	pod.Spec.InitContainers = inOrder(inits)
	pod.Spec.Containers = inOrder(mains)
	return warnings
}

func restoreContainer(name string, c *runtimeapi.Container, r recordedContainer) restored {
	out := restored{index: r.record.Index, Container: corev1.Container{
		Name:                     name,
		Image:                    cmp.Or(c.GetImage().GetUserSpecifiedImage(), c.GetImage().GetImage()),
		Ports:                    r.Ports,
		RestartPolicy:            r.record.RestartPolicy,
		TerminationMessagePath:   r.TerminationMessagePath,
		TerminationMessagePolicy: r.TerminationMessagePolicy,
	}}
	if r.PreStop != nil {
		out.Lifecycle = &corev1.Lifecycle{PreStop: r.PreStop}
	}
	return out
}

// inOrder puts containers in the template's order; those without a place come
// last.
func inOrder(containers []restored) []corev1.Container {
	slices.SortStableFunc(containers, func(a, b restored) int {
		if (a.index < 0) != (b.index < 0) {
			return cmp.Compare(b.index, a.index)
		}
		return cmp.Compare(a.index, b.index)
	})
	out := make([]corev1.Container, 0, len(containers))
	for _, c := range containers {
		out = append(out, c.Container)
	}
	return out
}

// containerName is the name in the template.
func containerName(labels map[string]string, metadata *runtimeapi.ContainerMetadata) string {
	return cmp.Or(labels[labelContainerName], metadata.GetName())
}
