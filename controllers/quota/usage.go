// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// countPods is the resource by which a quota limits Pods as objects.
const countPods corev1.ResourceName = "count/pods"

// requests and limits are the prefixes of what a quota limits of requests and of limits.
const (
	requests = "requests."
	limits   = "limits."
)

// Usage is what a NodeWorkload uses of quotas: of each, the largest of what Pods of the templates would that may
// run. It is not changed once it is made.
type Usage struct {
	// templates are what these use, one for all of the same scopes.
	templates []templateUsage
}

// templateUsage is what a Pod of a template uses of quotas, and by what their scopes match it.
type templateUsage struct {
	amounts corev1.ResourceList
	scopes
}

// scopes are a priority class, and what else the scopes of a quota ask: across says that an affinity looks at
// other namespaces.
type scopes struct {
	class                           string
	terminating, bestEffort, across bool
}

// UsageOf is the usage of Pods of a spec. (kubernetes
// pkg/quota/v1/evaluator/core/pods.go:podComputeUsageHelper)
func UsageOf(spec *corev1.PodSpec) *Usage {
	pod := &corev1.Pod{Spec: *spec}
	one := *resource.NewQuantity(1, resource.DecimalSI)
	u := templateUsage{
		corev1.ResourceList{corev1.ResourcePods: one, countPods: one},
		scopes{class: spec.PriorityClassName, terminating: terminating(spec), bestEffort: bestEffort(spec), across: across(spec.Affinity)},
	}
	for name, amount := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		if computed(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			u.amounts[name], u.amounts[requests+name] = amount, amount
		}
	}
	for name, amount := range podresource.PodLimits(pod, podresource.PodResourcesOptions{}) {
		if computed(name) {
			u.amounts[limits+name] = amount
		}
	}
	return &Usage{[]templateUsage{u}}
}

// With is what is used where templates of both may run: u or o where that is all.
func (u *Usage) With(o *Usage) *Usage {
	both := &Usage{slices.Clone(u.templates)}
	for _, t := range o.templates {
		i := slices.IndexFunc(both.templates, func(known templateUsage) bool { return known.scopes == t.scopes })
		if i < 0 {
			both.templates = append(both.templates, t)
			continue
		}
		both.templates[i].amounts = largest(both.templates[i].amounts, t.amounts)
	}
	for _, one := range []*Usage{u, o} {
		if both.Equal(one) {
			return one
		}
	}
	return both
}

// Equal reports whether both use the same of all quotas.
func (u *Usage) Equal(o *Usage) bool {
	same := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	in := func(t templateUsage) bool {
		return slices.ContainsFunc(o.templates, func(other templateUsage) bool {
			return t.scopes == other.scopes && maps.EqualFunc(t.amounts, other.amounts, same)
		})
	}
	return len(u.templates) == len(o.templates) && !slices.ContainsFunc(u.templates, func(t templateUsage) bool { return !in(t) })
}

// computed reports whether quotas limit a resource by requests and by limits.
func computed(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// of is what it uses of what a quota limits, nil if the quota is about other Pods. A nil
// Usage uses nothing.
func (u *Usage) of(q *corev1.ResourceQuota) corev1.ResourceList {
	if u == nil {
		return nil
	}
	var used corev1.ResourceList
	for _, t := range u.templates {
		if t.in(q) {
			used = largest(used, t.amounts)
		}
	}
	if used == nil {
		return nil
	}
	limited := make(corev1.ResourceList, len(q.Spec.Hard))
	for name := range q.Spec.Hard {
		if amount, ok := used[name]; ok {
			limited[name] = amount
		}
	}
	return limited
}

// largest returns of each resource the larger amount: a or b itself where that is all, or a copy.
func largest(a, b corev1.ResourceList) corev1.ResourceList {
	if a == nil {
		return b
	}
	most, copied := a, false
	for name, amount := range b {
		if known, ok := a[name]; !ok || amount.Cmp(known) > 0 {
			if !copied {
				most, copied = maps.Clone(a), true
			}
			most[name] = amount
		}
	}
	return most
}

// LimitsPods reports whether a quota limits Pods or what they compute with.
func LimitsPods(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		short := strings.TrimPrefix(strings.TrimPrefix(string(name), requests), limits)
		if name == countPods || short == "pods" || computed(corev1.ResourceName(short)) ||
			strings.HasPrefix(short, corev1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}
