// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func cpu(amount string) *Usage {
	return UsageOf(&corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", amount), nil)}})
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func asking(usage *Usage, names ...string) []Ask {
	var asks []Ask
	for _, name := range names {
		asks = append(asks, Ask{key(name), usage})
	}
	return asks
}

// limit is a quota whose use by Pods is known.
func limit(hard, used corev1.ResourceList, edits ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	q.Spec.Hard, q.Status.Hard, q.Status.Used = hard, hard, used
	for _, edit := range edits {
		edit(q)
	}
	return q
}

func scoped(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) { q.Spec.Scopes = scopes }
}

func of(class string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{class}},
		}}
	}
}

// NodeWorkloads get what Pods and other NodeWorkloads leave of each quota whose scopes match,
// in their order.
func TestDecide(t *testing.T) {
	none := UsageOf(&corev1.PodSpec{Containers: []corev1.Container{container(nil, nil)}})
	urgent := UsageOf(&corev1.PodSpec{PriorityClassName: "urgent", Containers: []corev1.Container{container(list("cpu", "300m"), nil)}})
	ending := UsageOf(&corev1.PodSpec{ActiveDeadlineSeconds: new(int64(60)), Containers: []corev1.Container{container(list("cpu", "300m"), nil)}})
	limited := UsageOf(&corev1.PodSpec{Containers: []corev1.Container{container(list("memory", "1Gi"), list("memory", "2Gi"))}})
	m300 := cpu("300m")
	for name, tt := range map[string]struct {
		quotas []*corev1.ResourceQuota
		held   map[types.NamespacedName]Held
		asks   []Ask
		want   map[string]string
	}{
		"no quota": {asks: asking(m300, "a", "b")},
		"room for three": {
			quotas: []*corev1.ResourceQuota{limit(list("requests.cpu", "1"), nil)},
			asks:   asking(m300, "a", "b", "c", "d"),
			want:   map[string]string{"d": "exceeded quota: team, requested: requests.cpu=300m, used: requests.cpu=900m, limited: requests.cpu=1"},
		},
		"all of it": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "900m"), nil)},
			asks:   asking(m300, "a", "b", "c"),
		},
		"Pods have some": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1"), list("cpu", "500m"))},
			asks:   asking(m300, "a", "b"),
			want:   map[string]string{"b": "exceeded quota: team, requested: cpu=300m, used: cpu=800m, limited: cpu=1"},
		},
		"NodeWorkloads have some": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1", "pods", "2"), nil)},
			held:   map[types.NamespacedName]Held{key("x"): {Has: m300}, key("y"): {Promised: cpu("500m")}},
			asks:   asking(m300, "a"),
			want:   map[string]string{"a": "exceeded quota: team, requested: cpu=300m,pods=1, used: cpu=800m,pods=2, limited: cpu=1,pods=2"},
		},
		"what is promised and there counts once": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1"), nil)},
			held:   map[types.NamespacedName]Held{key("x"): {Has: m300, Promised: cpu("700m")}},
			asks:   asking(m300, "a"),
		},
		"growth counts alone": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1", "pods", "1"), nil)},
			held:   map[types.NamespacedName]Held{key("a"): {Has: cpu("800m")}},
			asks:   asking(cpu("1"), "a"),
		},
		"growth without room": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1"), nil)},
			held:   map[types.NamespacedName]Held{key("a"): {Has: cpu("800m")}},
			asks:   asking(cpu("1100m"), "a"),
			want:   map[string]string{"a": "exceeded quota: team, requested: cpu=300m, used: cpu=800m, limited: cpu=1"},
		},
		"less is given where a quota is exceeded": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1"), list("cpu", "2"))},
			held:   map[types.NamespacedName]Held{key("a"): {Has: cpu("800m")}},
			asks:   asking(cpu("100m"), "a"),
		},
		"a smaller one fits after one that does not": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1"), nil)},
			asks:   []Ask{{key("a"), cpu("2")}, {key("b"), m300}},
			want:   map[string]string{"a": "exceeded quota: team, requested: cpu=2, used: cpu=0, limited: cpu=1"},
		},
		"what one of two refuses uses nothing of the other": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "400m"), nil), limit(list("memory", "1Gi"), nil)},
			asks:   []Ask{{key("a"), UsageOf(&corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "300m", "memory", "2Gi"), nil)}})}, {key("b"), m300}},
			want:   map[string]string{"a": "exceeded quota: team, requested: memory=2Gi, used: memory=0, limited: memory=1Gi"},
		},
		"limits": {
			quotas: []*corev1.ResourceQuota{limit(list("limits.memory", "3Gi", "requests.memory", "9Gi"), nil)},
			asks:   asking(limited, "a", "b"),
			want:   map[string]string{"b": "exceeded quota: team, requested: limits.memory=2Gi, used: limits.memory=2Gi, limited: limits.memory=3Gi"},
		},
		"count/pods": {
			quotas: []*corev1.ResourceQuota{limit(list("count/pods", "1"), list("count/pods", "1"))},
			asks:   asking(none, "a"),
			want:   map[string]string{"a": "exceeded quota: team, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"},
		},
		"of Pods without resources": {
			quotas: []*corev1.ResourceQuota{limit(list("pods", "0"), nil, scoped(corev1.ResourceQuotaScopeBestEffort))},
			asks:   append(asking(m300, "a"), asking(none, "b")...),
			want:   map[string]string{"b": "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"},
		},
		"of Pods with resources": {
			quotas: []*corev1.ResourceQuota{limit(list("pods", "0"), nil, scoped(corev1.ResourceQuotaScopeNotBestEffort))},
			asks:   append(asking(m300, "a"), asking(none, "b")...),
			want:   map[string]string{"a": "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"},
		},
		"of Pods with a deadline": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "0"), nil, scoped(corev1.ResourceQuotaScopeTerminating))},
			asks:   append(asking(m300, "a"), asking(ending, "b")...),
			want:   map[string]string{"b": "exceeded quota: team, requested: cpu=300m, used: cpu=0, limited: cpu=0"},
		},
		"of Pods without a deadline": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "0"), nil, scoped(corev1.ResourceQuotaScopeNotTerminating))},
			asks:   append(asking(m300, "a"), asking(ending, "b")...),
			want:   map[string]string{"a": "exceeded quota: team, requested: cpu=300m, used: cpu=0, limited: cpu=0"},
		},
		"of a class, which another class does not use": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "300m"), nil, of("urgent"))},
			held:   map[types.NamespacedName]Held{key("x"): {Has: m300}},
			asks:   append(asking(urgent, "a", "b"), asking(m300, "c")...),
			want:   map[string]string{"b": "exceeded quota: team, requested: cpu=300m, used: cpu=300m, limited: cpu=300m"},
		},
		"an update that comes into a quota's scope": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "200m"), nil, of("urgent"))},
			held:   map[types.NamespacedName]Held{key("a"): {Has: m300}},
			asks:   asking(urgent, "a"),
			want:   map[string]string{"a": "exceeded quota: team, requested: cpu=300m, used: cpu=0, limited: cpu=200m"},
		},
		"its use is not known yet": {
			quotas: []*corev1.ResourceQuota{limit(list("cpu", "1", "pods", "5"), nil, func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} })},
			asks:   asking(m300, "a"),
			want:   map[string]string{"a": "status unknown for quota: team, resources: cpu,pods"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for key, refusal := range Decide(tt.quotas, tt.held, tt.asks) {
				got[key.Name] = refusal.String()
			}
			if tt.want == nil {
				tt.want = map[string]string{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What makes room wakes who waits for it; what takes room does not.
func TestMadeRoom(t *testing.T) {
	before := func() *corev1.ResourceQuota { return limit(list("cpu", "1"), list("cpu", "500m", "pods", "2")) }
	for name, tt := range map[string]struct {
		edit func(*corev1.ResourceQuota)
		want bool
	}{
		"nothing":           {func(*corev1.ResourceQuota) {}, false},
		"raised":            {func(q *corev1.ResourceQuota) { q.Status.Hard = list("cpu", "2") }, true},
		"asked to be":       {func(q *corev1.ResourceQuota) { q.Spec.Hard = list("cpu", "2") }, true},
		"another scope":     {of("urgent"), true},
		"a Pod more":        {func(q *corev1.ResourceQuota) { q.Status.Used = list("cpu", "600m", "pods", "3") }, false},
		"a Pod less":        {func(q *corev1.ResourceQuota) { q.Status.Used = list("cpu", "500m", "pods", "1") }, true},
		"annotated":         {func(q *corev1.ResourceQuota) { q.Annotations = map[string]string{"a": "b"} }, false},
		"the same in words": {func(q *corev1.ResourceQuota) { q.Status.Hard = list("cpu", "1000m") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := before()
			tt.edit(now)
			if got := MadeRoom(before(), now); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}
