// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns what an API server would refuse in a Pod of the template, which has its defaults. path is where
// the template stands in its object. (k8s.io/kubernetes pkg/apis/core/validation:ValidatePodCreate)
func Validate(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	p := &problems{}
	p.metadata(t, path.Child("metadata"))
	spec, at := &t.Spec, path.Child("spec")
	volumes := p.volumes(spec.Volumes, at.Child("volumes"))
	pod := pod{spec: spec, volumes: volumes}
	p.containers(pod, at)
	p.podResources(spec, at.Child("resources"))
	p.amounts(spec.Overhead, at.Child("overhead", "limits")) // as the API server says it
	p.lifetime(spec, at)
	p.names(spec, at)
	p.network(spec, at)
	p.podSecurity(spec, at)
	p.placement(spec, at)
	return p.list
}

// pod is what the checks of a container need of its pod.
type pod struct {
	spec    *corev1.PodSpec
	volumes map[string]bool
}

func (p *problems) metadata(t *corev1.PodTemplateSpec, path *field.Path) {
	p.add(metavalidation.ValidateLabels(t.Labels, path.Child("labels"))...)
	p.add(apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
}

// lifetime checks for how long a pod runs.
func (p *problems) lifetime(spec *corev1.PodSpec, path *field.Path) {
	oneOf(p, path.Child("restartPolicy"), spec.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	if s := spec.TerminationGracePeriodSeconds; s != nil {
		notNegative(p, path.Child("terminationGracePeriodSeconds"), *s)
	}
	if s := spec.ActiveDeadlineSeconds; s != nil && (*s < 1 || *s > math.MaxInt32) {
		p.invalid(path.Child("activeDeadlineSeconds"), *s, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	optionalOneOf(p, path.Child("preemptionPolicy"), spec.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
}

// names checks the names of objects that a pod refers to.
func (p *problems) names(spec *corev1.PodSpec, path *field.Path) {
	p.optionalName(path.Child("serviceAccountName"), spec.ServiceAccountName, validation.IsDNS1123Subdomain)
	p.optionalName(path.Child("nodeName"), spec.NodeName, validation.IsDNS1123Subdomain)
	p.optionalName(path.Child("priorityClassName"), spec.PriorityClassName, validation.IsDNS1123Subdomain)
	if name := spec.RuntimeClassName; name != nil {
		p.invalid(path.Child("runtimeClassName"), *name, validation.IsDNS1123Subdomain(*name)...)
	}
}
