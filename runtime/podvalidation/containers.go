// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

func (p *problems) containers(pod pod, path *field.Path) {
	main, init := path.Child("containers"), path.Child("initContainers")
	if len(pod.spec.Containers) == 0 {
		p.add(field.Required(main, ""))
	}
	seen, ports := map[string]bool{}, map[string]bool{}
	for i := range pod.spec.Containers {
		c, at := &pod.spec.Containers[i], main.Index(i)
		p.container(pod, c, at)
		p.unique(at.Child("name"), c.Name, seen)
		p.uniqueHostPorts(c.Ports, at.Child("ports"), ports)
		p.probesAndHooks(pod, c, at)
	}
	for i := range pod.spec.InitContainers {
		c, at := &pod.spec.InitContainers[i], init.Index(i)
		p.container(pod, c, at)
		p.unique(at.Child("name"), c.Name, seen)
		p.uniqueHostPorts(c.Ports, at.Child("ports"), map[string]bool{}) // they run one after another
		if podspec.IsSidecar(c) {
			p.probesAndHooks(pod, c, at)
		} else {
			p.onceOnly(c, at)
		}
	}
}

// container checks what containers of all kinds have.
func (p *problems) container(pod pod, c *corev1.Container, path *field.Path) {
	p.name(path.Child("name"), c.Name, validation.IsDNS1123Label)
	if image := path.Child("image"); p.required(image, c.Image) && strings.TrimSpace(c.Image) != c.Image {
		p.invalid(image, c.Image, "must not have leading or trailing whitespace")
	}
	oneOf(p, path.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	oneOf(p, path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	p.ports(pod, c.Ports, path.Child("ports"))
	p.env(c.Env, path.Child("env"))
	p.envFrom(c.EnvFrom, path.Child("envFrom"))
	p.mounts(pod, c, path.Child("volumeMounts"))
	p.resources(&c.Resources, path.Child("resources"))
	p.resizePolicies(pod.spec.RestartPolicy, c.ResizePolicy, path.Child("resizePolicy"))
	p.restartRules(c, path)
	p.containerSecurity(pod, c.SecurityContext, path.Child("securityContext"))
}

func (p *problems) ports(pod pod, ports []corev1.ContainerPort, path *field.Path) {
	names := map[string]bool{}
	for i, port := range ports {
		at := path.Index(i)
		if port.Name != "" {
			p.invalid(at.Child("name"), port.Name, validation.IsValidPortName(port.Name)...)
			p.unique(at.Child("name"), port.Name, names)
		}
		if port.ContainerPort == 0 {
			p.add(field.Required(at.Child("containerPort"), ""))
		} else {
			p.invalid(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort))...)
		}
		if port.HostPort != 0 {
			p.invalid(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort))...)
		}
		if pod.spec.HostNetwork && port.HostPort != port.ContainerPort {
			p.invalid(at.Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
		oneOf(p, at.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

func (p *problems) uniqueHostPorts(ports []corev1.ContainerPort, path *field.Path, seen map[string]bool) {
	for i, port := range ports {
		if port.HostPort != 0 {
			p.unique(path.Index(i).Child("hostPort"), fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort), seen)
		}
	}
}

// onceOnly refuses what an init container that is no sidecar cannot have.
func (p *problems) onceOnly(c *corev1.Container, path *field.Path) {
	const why = "may not be set for init containers without restartPolicy=Always"
	for name, set := range map[string]bool{
		"lifecycle": c.Lifecycle != nil, "livenessProbe": c.LivenessProbe != nil,
		"readinessProbe": c.ReadinessProbe != nil, "startupProbe": c.StartupProbe != nil,
	} {
		if set {
			p.forbidden(path.Child(name), why)
		}
	}
	for i, policy := range c.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer {
			p.invalid(path.Child("resizePolicy").Index(i).Child("restartPolicy"), policy.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
}
