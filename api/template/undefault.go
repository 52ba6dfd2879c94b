// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// RemoveDefaults removes what SetDefaults would fill in again, so that a stored template can
// be given back to its user: defaults are never pinned in a ManagedWorkload. SetDefaults of
// the result is SetDefaults of the template.
func RemoveDefaults(t *corev1.PodTemplateSpec) {
	spec := &t.Spec
	unset(&spec.DNSPolicy, corev1.DNSClusterFirst)
	unset(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	unset(&spec.SchedulerName, corev1.DefaultSchedulerName)
	unsetPointer(&spec.TerminationGracePeriodSeconds, defaultTerminationGracePeriodSeconds)
	unsetPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if s := spec.SecurityContext; s != nil && isEmpty(s) {
		spec.SecurityContext = nil
	}
	for i := range spec.Volumes {
		if h := spec.Volumes[i].HostPath; h != nil {
			unsetPointer(&h.Type, corev1.HostPathUnset)
		}
		if image := spec.Volumes[i].Image; image != nil {
			unset(&image.PullPolicy, pullPolicy(image.Reference))
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			removeContainerDefaults(&containers[i], spec.HostNetwork)
		}
	}
}

func unset[T comparable](field *T, value T) {
	var zero T
	if *field == value {
		*field = zero
	}
}

func unsetPointer[T comparable](field **T, value T) {
	if *field != nil && **field == value {
		*field = nil
	}
}

func isEmpty(s *corev1.PodSecurityContext) bool {
	return reflect.DeepEqual(*s, corev1.PodSecurityContext{})
}

func removeContainerDefaults(c *corev1.Container, hostNetwork bool) {
	unset(&c.ImagePullPolicy, pullPolicy(c.Image))
	unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		unset(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			unset(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			unset(&from.FieldRef.APIVersion, "v1")
		}
	}
	removeResourceDefaults(&c.Resources)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		removeProbeDefaults(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				removeHTTPGetDefaults(h.HTTPGet)
			}
		}
	}
}

func removeResourceDefaults(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if request, ok := r.Requests[name]; ok && request.Cmp(limit) == 0 && request.Format == limit.Format {
			delete(r.Requests, name)
		}
	}
	if len(r.Requests) == 0 && len(r.Limits) > 0 {
		r.Requests = nil
	}
}

func removeProbeDefaults(p *corev1.Probe) {
	if p == nil {
		return
	}
	unset(&p.TimeoutSeconds, defaultProbeTimeoutSeconds)
	unset(&p.PeriodSeconds, defaultProbePeriodSeconds)
	unset(&p.SuccessThreshold, defaultProbeSuccessThreshold)
	unset(&p.FailureThreshold, defaultProbeFailureThreshold)
	removeHTTPGetDefaults(p.HTTPGet)
	if p.GRPC != nil {
		unsetPointer(&p.GRPC.Service, "")
	}
}

func removeHTTPGetDefaults(a *corev1.HTTPGetAction) {
	if a != nil {
		unset(&a.Path, "/")
		unset(&a.Scheme, corev1.URISchemeHTTP)
	}
}
