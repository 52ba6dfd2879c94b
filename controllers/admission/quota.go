// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// countedAs is the resource by which a quota limits what runs here.
const countedAs = "count/nodeworkloads.managedworkload.dev"

// uncounted says that a quota of the Pod's namespace would limit the Pod, and that none
// counts NodeWorkloads: a dry run asks quotas and charges none, so without it a
// ManagedWorkload would get more than a Pod.
func (j *Judge) uncounted(ctx context.Context, pod *corev1.Pod) (string, error) {
	if j.options.IgnoreQuotas {
		return "", nil
	}
	list := &corev1.ResourceQuotaList{}
	if err := j.client.List(ctx, list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the quotas of namespace %q: %w", pod.Namespace, err)
	}
	limiting := ""
	for i := range list.Items {
		quota := &list.Items[i]
		if _, counted := quota.Spec.Hard[countedAs]; counted {
			return "", nil
		}
		if limitsPods(quota) && inScope(quota, pod) {
			limiting = quota.Name
		}
	}
	if limiting == "" {
		return "", nil
	}
	return fmt.Sprintf("ResourceQuota %s limits the Pods of this namespace, and nothing would count what runs on the nodes; limit that too: "+
		"kubectl create quota nodeworkloads -n %s --hard=%s=NUMBER", limiting, pod.Namespace, countedAs), nil
}

// limitsPods reports whether a quota limits Pods or what they compute with.
func limitsPods(quota *corev1.ResourceQuota) bool {
	for name := range quota.Spec.Hard {
		short := strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits.")
		if name == "count/pods" || short == "pods" || short == "cpu" || short == "memory" || short == "ephemeral-storage" ||
			strings.HasPrefix(short, corev1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}

// inScope reports whether a quota's scopes match a Pod. (kubernetes
// pkg/quota/v1/evaluator/core/pods.go:podMatchesScopeFunc)
func inScope(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	requirements := []corev1.ScopedResourceSelectorRequirement{}
	for _, scope := range quota.Spec.Scopes {
		requirements = append(requirements, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		requirements = append(requirements, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	return !slices.ContainsFunc(requirements, func(r corev1.ScopedResourceSelectorRequirement) bool { return !matches(r, pod) })
}

func matches(r corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesClass(r, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return false // of volume claims only
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return slices.ContainsFunc(podAffinityTerms(pod.Spec.Affinity), func(t corev1.PodAffinityTerm) bool {
			return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
		})
	}
	return true // one that is not known here may match
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

// bestEffort reports whether no container asks for or limits CPU or memory.
func bestEffort(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return false
			}
		}
	}
	return true
}
