// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/downwardapi"
	"github.com/managedworkload/managedworkload/runtime/expansion"
	"github.com/managedworkload/managedworkload/runtime/objects"
)

// environment resolves a container's envFrom and then its env in the order of the
// template, so that a value may refer to those before it and replaces one of its name.
// The API server's address comes last and replaces nothing.
// (kubelet_pods.go:makeEnvironmentVariables)
func (m *Manager) environment(pod *corev1.Pod, c *corev1.Container, podIPs []string) ([]EnvVar, map[string]string, error) {
	vars := &variables{values: make(map[string]string, len(c.Env)), server: m.config.APIServer.variables()}
	for i := range c.EnvFrom {
		if err := m.envFrom(pod, &c.EnvFrom[i], vars); err != nil {
			return nil, nil, err
		}
	}
	for i := range c.Env {
		e := &c.Env[i]
		value, set, err := m.envValue(pod, c, e, podIPs, vars)
		if err != nil {
			return nil, nil, err
		}
		if set {
			vars.set(e.Name, value)
		}
	}
	vars.addServer()
	return vars.list(), vars.values, nil
}

// Objects that the manager may still send are waited for: a new workload arrives before
// what it refers to.
const (
	objectPatience = 5 * time.Second
	objectInterval = 100 * time.Millisecond
)

// awaitEnvironment is the environment once the objects have been received for it, or the error
// that they have not.
func (m *Manager) awaitEnvironment(ctx context.Context, pod *corev1.Pod, c *corev1.Container, podIPs []string) ([]EnvVar, map[string]string, error) {
	deadline := time.Now().Add(objectPatience)
	for {
		env, values, err := m.environment(pod, c, podIPs)
		if !errors.Is(err, objects.ErrNotReceived) || !time.Now().Before(deadline) {
			return env, values, err
		}
		timer := time.NewTimer(objectInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, context.Cause(ctx)
		}
	}
}

// envValue resolves a variable; false if it has no value because its source is optional.
func (m *Manager) envValue(pod *corev1.Pod, c *corev1.Container, e *corev1.EnvVar, podIPs []string, vars *variables) (string, bool, error) {
	if e.Value != "" || e.ValueFrom == nil {
		return expansion.Expand(e.Value, vars.lookup), true, nil
	}
	var value string
	var err error
	switch from := e.ValueFrom; {
	case from.FieldRef != nil:
		value, err = m.fieldValue(pod, from.FieldRef, podIPs)
	case from.ResourceFieldRef != nil:
		value, err = m.resourceValue(pod, c, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		return m.configMapValue(pod.Namespace, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return m.secretValue(pod.Namespace, from.SecretKeyRef)
	default:
		err = errors.New("its source is not supported")
	}
	if err != nil {
		return "", false, fmt.Errorf("resolve environment variable %q: %w", e.Name, err)
	}
	return value, true, nil
}

// fieldValue resolves a fieldRef. (kubelet_pods.go:podFieldSelectorRuntimeValue)
func (m *Manager) fieldValue(pod *corev1.Pod, ref *corev1.ObjectFieldSelector, podIPs []string) (string, error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", fmt.Errorf("unsupported pod version: %s", ref.APIVersion)
	}
	switch ref.FieldPath {
	case "spec.nodeName":
		return m.nodeName(pod), nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(m.config.NodeIPs), nil
	case "status.hostIPs":
		return strings.Join(m.config.NodeIPs, ","), nil
	case "status.podIP":
		return first(m.effectiveIPs(pod, podIPs)), nil
	case "status.podIPs":
		return strings.Join(m.effectiveIPs(pod, podIPs), ","), nil
	}
	return downwardapi.Metadata(&pod.ObjectMeta, ref.FieldPath)
}

func (m *Manager) nodeName(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return m.config.NodeName
}

// effectiveIPs are the node's for a pod on the host network, whose sandbox has
// none of its own.
func (m *Manager) effectiveIPs(pod *corev1.Pod, podIPs []string) []string {
	if len(podIPs) == 0 && pod.Spec.HostNetwork {
		return m.config.NodeIPs
	}
	return podIPs
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
