// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/downwardapi"
	"github.com/managedworkload/managedworkload/runtime/expansion"
)

// environment resolves a container's env in the order of the template, so that a
// value may refer to those before it. There are no variables of Services.
// (kubelet_pods.go:makeEnvironmentVariables)
func (m *Manager) environment(pod *corev1.Pod, c *corev1.Container, podIPs []string) ([]EnvVar, map[string]string, error) {
	values := make(map[string]string, len(c.Env))
	var names []string
	for i := range c.Env {
		e := &c.Env[i]
		value, err := m.envValue(pod, c, e, podIPs, values)
		if err != nil {
			return nil, nil, fmt.Errorf("resolve environment variable %q: %w", e.Name, err)
		}
		if _, again := values[e.Name]; !again {
			names = append(names, e.Name)
		}
		values[e.Name] = value
	}
	env := make([]EnvVar, 0, len(names))
	for _, name := range names {
		env = append(env, EnvVar{Name: name, Value: values[name]})
	}
	return env, values, nil
}

func (m *Manager) envValue(pod *corev1.Pod, c *corev1.Container, e *corev1.EnvVar, podIPs []string, values map[string]string) (string, error) {
	if e.Value != "" || e.ValueFrom == nil {
		return expansion.Expand(e.Value, expansion.In(values)), nil
	}
	switch from := e.ValueFrom; {
	case from.FieldRef != nil:
		return m.fieldValue(pod, from.FieldRef, podIPs)
	case from.ResourceFieldRef != nil:
		return m.resourceValue(pod, c, from.ResourceFieldRef)
	default:
		return "", fmt.Errorf("its source is not supported")
	}
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
