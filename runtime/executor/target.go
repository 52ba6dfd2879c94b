// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// target is the container that is killed, with the spec that applies to it.
type target struct {
	// pod is whose container it is; events go to it.
	pod *corev1.Pod
	// spec holds the grace periods, and container the hook and the ports.
	spec      *corev1.Pod
	container *corev1.Container
	id        string
	// before is the container as it was when the kill began; nil if the runtime
	// did not tell. missing: the runtime did not know it.
	before  *plan.ContainerStatus
	missing bool
}

// resolveTarget finds the spec a kill goes by: the pod's, or the one recorded
// when the container was created. A pod that does not name the container is an
// error. (kubelet kuberuntime_container.go:killContainer,
// restoreSpecsFromContainerLabels)
func (e *Executor) resolveTarget(ctx context.Context, pod *corev1.Pod, id, name string, opts KillOptions) (target, error) {
	t := target{pod: pod, spec: pod, id: id}
	if !opts.FromRecord {
		if t.container = podspec.Container(pod, name); t.container == nil {
			return t, fmt.Errorf("failed to get containerSpec %q (id=%q) in pod %q when killing container for reason %q",
				name, e.containerURI(id), podspec.Format(pod), opts.Message)
		}
	}
	before, err := e.facts(ctx, id)
	switch {
	case err == nil:
		t.before = &before
	case opts.FromRecord:
		return t, err // it is the runtime's, and says which container
	default:
		t.missing = runtimeerror.IsNotFound(err)
	}
	if opts.FromRecord {
		t.spec, t.container = restoreSpec(pod, before.Name, before.Recorded)
	}
	return t, nil
}

// factsTimeout bounds how long a kill waits to learn about its container: the
// kill itself needs no answer.
const factsTimeout = 10 * time.Second

// facts reads what the runtime says about a container, also after ctx has ended.
func (e *Executor) facts(ctx context.Context, id string) (plan.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), factsTimeout)
	defer cancel()
	return e.runtime.ContainerStatus(ctx, id)
}

// restoreSpec makes of a container's record what a kill needs. A deletion of
// the pod as it is now counts more than what was recorded.
func restoreSpec(pod *corev1.Pod, name string, rec plan.Recorded) (*corev1.Pod, *corev1.Container) {
	spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
		DeletionGracePeriodSeconds: rec.DeletionGracePeriodSeconds,
	}}
	if pod.DeletionGracePeriodSeconds != nil {
		spec.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	}
	spec.Spec.TerminationGracePeriodSeconds = rec.TerminationGracePeriodSeconds
	c := &corev1.Container{Name: name, Ports: rec.Ports, TerminationMessagePath: rec.TerminationMessagePath}
	if rec.PreStop != nil {
		c.Lifecycle = &corev1.Lifecycle{PreStop: rec.PreStop}
	}
	if now := podspec.Container(pod, name); now != nil {
		// A probe that asks for the kill is the present one, and so is its grace period.
		c.LivenessProbe, c.StartupProbe = now.LivenessProbe, now.StartupProbe
	}
	return spec, c
}

// containerURI is a container's ID as the kubelet writes it in messages.
func (e *Executor) containerURI(id string) string {
	return e.runtimeName + "://" + id
}

// containerEvent writes an event about a container. Its ID never stands in an
// event, or no two would be alike. (kubelet
// kuberuntime_container.go:recordContainerEvent)
func (e *Executor) containerEvent(pod *corev1.Pod, name, id, eventtype, reason, message string) {
	if id != "" {
		message = strings.ReplaceAll(message, id, name)
	}
	e.events.Event(pod, podspec.FieldPath(pod, name), eventtype, reason, message)
}
