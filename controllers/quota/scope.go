// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Matches reports whether a quota's scopes match Pods of a usage.
func Matches(q *corev1.ResourceQuota, u *Usage) bool {
	return slices.ContainsFunc(u.templates, func(t templateUsage) bool { return t.in(q) })
}

// in reports whether a quota's scopes match. (kubernetes
// pkg/quota/v1/evaluator/core/pods.go:podMatchesScopeFunc)
func (s scopes) in(q *corev1.ResourceQuota) bool {
	for _, scope := range q.Spec.Scopes {
		if !s.meets(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if q.Spec.ScopeSelector == nil {
		return true
	}
	return !slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions, func(r corev1.ScopedResourceSelectorRequirement) bool { return !s.meets(r) })
}

func (s scopes) meets(r corev1.ScopedResourceSelectorRequirement) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return s.terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !s.terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return s.bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !s.bestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesClass(r, s.class)
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return false // of volume claims only
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return s.across
	}
	return true // one that is not known here may match
}

func matchesClass(r corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return slices.Contains(r.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return class == "" || !slices.Contains(r.Values, class)
	}
	return true
}

func terminating(spec *corev1.PodSpec) bool {
	return spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds >= 0
}

// bestEffort reports whether neither the pod nor a container asks for or limits CPU or memory.
func bestEffort(spec *corev1.PodSpec) bool {
	var all []corev1.ResourceList
	if r := spec.Resources; r != nil {
		all = append(all, r.Requests, r.Limits)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		all = append(all, c.Resources.Requests, c.Resources.Limits)
	}
	return !slices.ContainsFunc(all, func(list corev1.ResourceList) bool { return !list.Cpu().IsZero() || !list.Memory().IsZero() })
}

// across reports whether an affinity looks at Pods of other namespaces.
func across(affinity *corev1.Affinity) bool {
	return slices.ContainsFunc(podAffinityTerms(affinity), func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}

// podAffinityTerms are all terms about other Pods, required and preferred ones.
func podAffinityTerms(affinity *corev1.Affinity) []corev1.PodAffinityTerm {
	if affinity == nil {
		return nil
	}
	var terms []corev1.PodAffinityTerm
	var preferred []corev1.WeightedPodAffinityTerm
	if a := affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, weighted := range preferred {
		terms = append(terms, weighted.PodAffinityTerm)
	}
	return terms
}
