// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
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

// Usage is what a Pod of a template uses of quotas, and by what their scopes match it. It is
// not changed once it is made.
type Usage struct {
	amounts corev1.ResourceList
	// class is the priority class, and across says that its affinity looks at other namespaces.
	class                           string
	terminating, bestEffort, across bool
}

// UsageOf is the usage of Pods of a spec. (kubernetes
// pkg/quota/v1/evaluator/core/pods.go:podComputeUsageHelper)
func UsageOf(spec *corev1.PodSpec) *Usage {
	pod := &corev1.Pod{Spec: *spec}
	one := *resource.NewQuantity(1, resource.DecimalSI)
	u := &Usage{
		amounts: corev1.ResourceList{corev1.ResourcePods: one, countPods: one},
		class:   spec.PriorityClassName, terminating: terminating(spec), bestEffort: bestEffort(spec), across: across(spec.Affinity),
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
	return u
}

// AtLeast is u with, of each amount, the larger one of both. It is of the priority class of u.
func (u *Usage) AtLeast(o *Usage) *Usage {
	more := *u
	more.bestEffort = u.bestEffort && o.bestEffort
	more.terminating, more.across = u.terminating && o.terminating, u.across || o.across
	more.amounts = u.amounts.DeepCopy()
	for name, amount := range o.amounts {
		if known, found := more.amounts[name]; !found || known.Cmp(amount) < 0 {
			more.amounts[name] = amount
		}
	}
	return &more
}

// Equal reports whether both use the same of all quotas.
func (u *Usage) Equal(o *Usage) bool {
	same := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	return u.class == o.class && u.across == o.across && u.terminating == o.terminating && u.bestEffort == o.bestEffort &&
		maps.EqualFunc(u.amounts, o.amounts, same)
}

// computed reports whether quotas limit a resource by requests and by limits.
func computed(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// of is what it uses of what a quota limits, nil if the quota is about other Pods. A nil
// Usage uses nothing.
func (u *Usage) of(q *corev1.ResourceQuota) corev1.ResourceList {
	if u == nil || !Matches(q, u) {
		return nil
	}
	used := corev1.ResourceList{}
	for name, amount := range u.amounts {
		if _, limited := q.Spec.Hard[name]; limited {
			used[name] = amount
		}
	}
	return used
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
