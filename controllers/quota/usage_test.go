// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(requested, limited corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requested, Limits: limited}}
}

// A NodeWorkload uses of a quota what a Pod of its template would: init containers that end
// count only as far as they ask for more, sidecars and the overhead beside the containers.
func TestUsageIsAPods(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container(list("cpu", "50m"), nil)
	sidecar.RestartPolicy = &always
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		"nothing is asked for": {
			corev1.PodSpec{Containers: []corev1.Container{container(nil, nil)}},
			list("pods", "1", "count/pods", "1"),
		},
		"requests and limits": {
			corev1.PodSpec{Containers: []corev1.Container{
				container(list("cpu", "100m", "memory", "1Mi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi"), list("cpu", "1", "memory", "2Mi", "hugepages-2Mi", "4Mi")),
				container(list("cpu", "200m"), nil),
			}},
			list("pods", "1", "count/pods", "1", "cpu", "300m", "requests.cpu", "300m", "memory", "1Mi", "requests.memory", "1Mi",
				"ephemeral-storage", "1Gi", "requests.ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi",
				"limits.cpu", "1", "limits.memory", "2Mi"),
		},
		"init containers, sidecars and overhead": {
			corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar, container(list("cpu", "120m"), nil)},
				Containers:     []corev1.Container{container(list("cpu", "100m"), nil)},
				Overhead:       list("cpu", "7m"),
			},
			list("pods", "1", "count/pods", "1", "cpu", "177m", "requests.cpu", "177m"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, UsageOf(&tt.spec).templates[0].amounts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod that asks for something as a whole is not of those without resources.
func TestBestEffortOfAPod(t *testing.T) {
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{container(nil, nil)},
		Resources:  &corev1.ResourceRequirements{Requests: list("memory", "1Mi")},
	}
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}}
	if Matches(q, UsageOf(spec)) {
		t.Error("a pod with a request counts as one without")
	}
}

// Where several templates may run, each counts in the quotas whose scopes match it, and of those in one quota the
// largest amounts. Templates of the same scopes take no more memory than one.
func TestUsageOfSeveralTemplates(t *testing.T) {
	spec := func(class string, deadline *int64, requested corev1.ResourceList) *corev1.PodSpec {
		return &corev1.PodSpec{PriorityClassName: class, ActiveDeadlineSeconds: deadline, Containers: []corev1.Container{container(requested, nil)}}
	}
	hard := list("pods", "10", "requests.cpu", "10", "requests.memory", "10")
	runs, waits := UsageOf(spec("high", nil, list("cpu", "3"))), UsageOf(spec("low", nil, list("cpu", "1", "memory", "5")))
	nothing, ending := UsageOf(spec("high", nil, nil)), UsageOf(spec("high", new(int64(60)), list("cpu", "2")))
	for name, tt := range map[string]struct {
		usage *Usage
		quota *corev1.ResourceQuota
		want  corev1.ResourceList
	}{
		"of the class that runs":    {waits.With(runs), limit(hard, nil, of("high")), list("pods", "1", "requests.cpu", "3")},
		"of the class that waits":   {waits.With(runs), limit(hard, nil, of("low")), list("pods", "1", "requests.cpu", "1", "requests.memory", "5")},
		"of a third class":          {waits.With(runs), limit(hard, nil, of("other")), nil},
		"of all":                    {waits.With(runs), limit(hard, nil), list("pods", "1", "requests.cpu", "3", "requests.memory", "5")},
		"best effort runs":          {runs.With(nothing), limit(hard, nil, scoped(corev1.ResourceQuotaScopeBestEffort)), list("pods", "1")},
		"best effort waits":         {nothing.With(runs), limit(hard, nil, scoped(corev1.ResourceQuotaScopeNotBestEffort)), list("pods", "1", "requests.cpu", "3")},
		"one with a deadline runs":  {runs.With(ending), limit(hard, nil, scoped(corev1.ResourceQuotaScopeTerminating)), list("pods", "1", "requests.cpu", "2")},
		"one with a deadline waits": {ending.With(runs), limit(hard, nil, scoped(corev1.ResourceQuotaScopeNotTerminating)), list("pods", "1", "requests.cpu", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.usage.of(tt.quota)); diff != "" {
				t.Error(diff)
			}
			if Matches(tt.quota, tt.usage) != (tt.want != nil) {
				t.Errorf("the quota matches: %t", tt.want == nil)
			}
		})
	}
	many := waits.With(runs)
	for range 10 {
		many = UsageOf(spec("high", nil, list("cpu", "2", "memory", "7"))).With(many)
	}
	if len(many.templates) != 2 {
		t.Errorf("%d templates are kept of 2 with different scopes", len(many.templates))
	}
	if small := UsageOf(spec("high", nil, list("cpu", "1"))); small.With(runs) != runs || runs.With(small) != runs {
		t.Error("what uses less is kept, too")
	}
}

// What is known is compared without a copy, where no amount is larger than another, and is not changed.
func TestUsageIsCopiedOnlyWhereItGrows(t *testing.T) {
	usage := UsageOf(&corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "3", "memory", "5"), nil)}})
	amounts := usage.templates[0].amounts
	less, more := list("requests.cpu", "1", "pods", "1"), list("requests.cpu", "4", "requests.memory", "1")
	before := amounts.DeepCopy()
	for name, other := range map[string]corev1.ResourceList{"less": less, "the same": amounts, "nothing": nil} {
		if n := testing.AllocsPerRun(10, func() { largest(amounts, other) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	want := before.DeepCopy()
	want["requests.cpu"] = more["requests.cpu"]
	if diff := cmp.Diff(want, largest(amounts, more)); diff != "" {
		t.Errorf("beside more CPU (-want +got):\n%s", diff)
	}
	quota := limit(list("pods", "10", "requests.cpu", "10"), nil)
	if diff := cmp.Diff(list("pods", "1", "requests.cpu", "3"), Held{Has: usage}.of(quota)); diff != "" {
		t.Errorf("of a quota (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, amounts); diff != "" {
		t.Errorf("the usage itself (-before +after):\n%s", diff)
	}
}
