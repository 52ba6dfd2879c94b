// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkProbePorts refuses probes on a named port that their container does not
// have: such a probe never runs, so that its container counts as live for ever.
// A name that is a number counts as one. (kubelet probe/util.go:ResolveContainerPort,
// which the API server lets through and which fails at each probe)
func (c *checker) checkProbePorts(containers []corev1.Container, path *field.Path) {
	for i := range containers {
		container := &containers[i]
		for _, named := range []struct {
			name  string
			probe *corev1.Probe
		}{
			{"livenessProbe", container.LivenessProbe}, {"readinessProbe", container.ReadinessProbe}, {"startupProbe", container.StartupProbe},
		} {
			probe, at := named.probe, path.Index(i).Child(named.name)
			if probe == nil {
				continue
			}
			if probe.HTTPGet != nil {
				c.checkNamedPort(container, probe.HTTPGet.Port, at.Child("httpGet", "port"))
			}
			if probe.TCPSocket != nil {
				c.checkNamedPort(container, probe.TCPSocket.Port, at.Child("tcpSocket", "port"))
			}
		}
	}
}

func (c *checker) checkNamedPort(container *corev1.Container, port intstr.IntOrString, path *field.Path) {
	if port.Type != intstr.String {
		return
	}
	if slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }) {
		return
	}
	if _, err := strconv.Atoi(port.StrVal); err == nil {
		return
	}
	c.refused = append(c.refused, field.Invalid(path, port.StrVal,
		"the container has no port of that name; add it to the container's ports or use a number"))
}
