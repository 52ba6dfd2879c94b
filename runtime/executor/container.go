// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// errNoContainer is the kubelet's error about a container that the pod does not
// name. (kubelet kuberuntime_container.go:killContainer)
func (e *Executor) errNoContainer(pod *corev1.Pod, kill plan.Kill) error {
	return fmt.Errorf("failed to get containerSpec %q (id=%q) in pod %q when killing container for reason %q",
		kill.Name, e.containerURI(kill.ID), podspec.Format(pod), kill.Message)
}

// statusTimeout bounds how long a kill waits to learn about its container: the
// kill itself needs no answer.
const statusTimeout = 10 * time.Second

// containerStatus reads what the runtime says about a container, also after ctx has ended.
func (e *Executor) containerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
	defer cancel()
	return e.runtime.ContainerStatus(ctx, id)
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
