// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A quota that limits the Pod has to be accompanied by one that counts NodeWorkloads.
func TestQuotasThatDoNotCount(t *testing.T) {
	quota := func(edit func(*corev1.ResourceQuota), resources ...corev1.ResourceName) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "limit"}}
		q.Spec.Hard = corev1.ResourceList{}
		for _, name := range resources {
			q.Spec.Hard[name] = resource.MustParse("1")
		}
		if edit != nil {
			edit(q)
		}
		return q
	}
	scope := func(s corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) { q.Spec.Scopes = []corev1.ResourceQuotaScope{s} }
	}
	class := func(op corev1.ScopeSelectorOperator, values ...string) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values},
			}}
		}
	}
	burstable := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		p.Spec.PriorityClassName, p.Spec.ActiveDeadlineSeconds = "high", new(int64(5))
	}
	near := func(namespaces ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: namespaces}}},
			}}
		}
	}
	tests := map[string]struct {
		quota  *corev1.ResourceQuota
		pod    func(*corev1.Pod)
		ignore bool
		want   bool
	}{
		"of pods":                       {quota: quota(nil, "pods"), want: true},
		"by count":                      {quota: quota(nil, "count/pods"), want: true},
		"of memory":                     {quota: quota(nil, "limits.memory"), want: true},
		"of huge pages":                 {quota: quota(nil, "requests.hugepages-2Mi"), want: true},
		"of services":                   {quota: quota(nil, "services", "requests.storage", "count/configmaps")},
		"that counts NodeWorkloads":     {quota: quota(nil, "pods", countedAs)},
		"of pods, ignored":              {quota: quota(nil, "pods"), ignore: true},
		"of pods without resources":     {quota: quota(scope(corev1.ResourceQuotaScopeBestEffort), "pods"), want: true},
		"of others without resources":   {quota: quota(scope(corev1.ResourceQuotaScopeBestEffort), "pods"), pod: burstable},
		"of pods with resources":        {quota: quota(scope(corev1.ResourceQuotaScopeNotBestEffort), "pods"), pod: burstable, want: true},
		"of pods with a deadline":       {quota: quota(scope(corev1.ResourceQuotaScopeTerminating), "pods"), pod: burstable, want: true},
		"of pods without a deadline":    {quota: quota(scope(corev1.ResourceQuotaScopeNotTerminating), "pods"), pod: burstable},
		"of a class":                    {quota: quota(class(corev1.ScopeSelectorOpIn, "high"), "pods"), pod: burstable, want: true},
		"of another class":              {quota: quota(class(corev1.ScopeSelectorOpIn, "low"), "pods"), pod: burstable},
		"of all classes but this":       {quota: quota(class(corev1.ScopeSelectorOpNotIn, "high"), "pods"), pod: burstable},
		"of any class":                  {quota: quota(class(corev1.ScopeSelectorOpExists), "pods")},
		"of no class":                   {quota: quota(class(corev1.ScopeSelectorOpDoesNotExist), "pods"), want: true},
		"of affinity between the teams": {quota: quota(scope(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), "pods"), pod: near()},
		"of affinity to another team":   {quota: quota(scope(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), "pods"), pod: near("other"), want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
			if tt.pod != nil {
				tt.pod(pod)
			}
			j := NewJudge(fake.NewClientBuilder().WithObjects(tt.quota).Build(), Options{IgnoreQuotas: tt.ignore})
			words, err := j.uncounted(t.Context(), pod)
			if err != nil || (words != "") != tt.want {
				t.Errorf("%q, error %v", words, err)
			}
			if tt.want && !strings.Contains(words, "kubectl create quota nodeworkloads -n ns --hard=count/nodeworkloads.managedworkload.dev=NUMBER") {
				t.Errorf("%q does not say what to do", words)
			}
		})
	}
}
