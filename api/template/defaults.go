// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Defaults of core/v1 (k8s.io/kubernetes pkg/apis/core/v1/defaults.go).
const (
	defaultTerminationGracePeriodSeconds = 30
	defaultProbeTimeoutSeconds           = 1
	defaultProbePeriodSeconds            = 10
	defaultProbeSuccessThreshold         = 1
	defaultProbeFailureThreshold         = 3
)

// SetDefaults fills in what the API server would fill into a Pod made from the
// template; the API server does not do that for a template inside a custom
// resource. It is idempotent.
func SetDefaults(t *corev1.PodTemplateSpec) {
	spec := &t.Spec
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefaultPointer(&spec.TerminationGracePeriodSeconds, defaultTerminationGracePeriodSeconds)
	setDefaultPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	setDefaultPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	for i := range spec.Volumes {
		setVolumeDefaults(&spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			setContainerDefaults(&containers[i], spec.HostNetwork)
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setVolumeDefaults(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setDefaultPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Image != nil {
		setDefault(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func setContainerDefaults(c *corev1.Container, hostNetwork bool) {
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			setDefault(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			setDefault(&from.FieldRef.APIVersion, "v1")
		}
	}
	setResourceDefaults(&c.Resources)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		setProbeDefaults(p)
	}
	if c.Lifecycle != nil {
		setHookDefaults(c.Lifecycle.PostStart)
		setHookDefaults(c.Lifecycle.PreStop)
	}
}

// setResourceDefaults rounds quantities up to thousandths and lets a limit without
// a request be the request too. (pkg/apis/core/v1/defaults.go:SetDefaults_ResourceList)
func setResourceDefaults(r *corev1.ResourceRequirements) {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

func setProbeDefaults(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, defaultProbeTimeoutSeconds)
	setDefault(&p.PeriodSeconds, defaultProbePeriodSeconds)
	setDefault(&p.SuccessThreshold, defaultProbeSuccessThreshold)
	setDefault(&p.FailureThreshold, defaultProbeFailureThreshold)
	setHTTPGetDefaults(p.HTTPGet)
	if p.GRPC != nil {
		setDefaultPointer(&p.GRPC.Service, "")
	}
}

func setHookDefaults(h *corev1.LifecycleHandler) {
	if h != nil {
		setHTTPGetDefaults(h.HTTPGet)
	}
}

func setHTTPGetDefaults(a *corev1.HTTPGetAction) {
	if a != nil {
		setDefault(&a.Path, "/")
		setDefault(&a.Scheme, corev1.URISchemeHTTP)
	}
}

// pullPolicy is Always for the tag latest, also when it is not written, and
// IfNotPresent for any other tag or a digest.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, hasDigest := strings.Cut(image, "@")
	last := name[strings.LastIndex(name, "/")+1:]
	_, tag, hasTag := strings.Cut(last, ":")
	if tag == "latest" || (!hasTag && !hasDigest) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
