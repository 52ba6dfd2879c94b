// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func requiredAffinity(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func requirement(key string, op corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: "yes", Effect: effect}
}

func TestPlace(t *testing.T) {
	drained, held := Placement{Drained: true}, Placement{ShouldContinue: true, Drained: true}
	never, stay, run := Placement{}, Placement{ShouldContinue: true}, Placement{ShouldRun: true, ShouldContinue: true}
	gpu := map[string]string{"hardware": "gpu"}
	tests := map[string]struct {
		spec   corev1.PodSpec
		labels map[string]string
		taints []corev1.Taint
		want   Placement
	}{
		"no constraints":           {want: run},
		"its node by name":         {spec: corev1.PodSpec{NodeName: "n1"}, want: run},
		"another node by name":     {spec: corev1.PodSpec{NodeName: "n2"}, want: never},
		"selector matches":         {spec: corev1.PodSpec{NodeSelector: gpu}, labels: gpu, want: run},
		"selector does not match":  {spec: corev1.PodSpec{NodeSelector: gpu}, want: never},
		"affinity matches a label": {spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchExpressions: requirement("hardware", corev1.NodeSelectorOpIn, "gpu", "npu")})}, labels: gpu, want: run},
		"affinity, one term of two matches": {spec: corev1.PodSpec{Affinity: requiredAffinity(
			corev1.NodeSelectorTerm{MatchExpressions: requirement("zone", corev1.NodeSelectorOpExists)},
			corev1.NodeSelectorTerm{MatchExpressions: requirement("hardware", corev1.NodeSelectorOpExists)})}, labels: gpu, want: run},
		"affinity does not match":             {spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchExpressions: requirement("hardware", corev1.NodeSelectorOpDoesNotExist)})}, labels: gpu, want: never},
		"affinity by the node's name":         {spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchFields: requirement(metav1.ObjectNameField, corev1.NodeSelectorOpIn, "n1")})}, want: run},
		"affinity by another node's name":     {spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchFields: requirement(metav1.ObjectNameField, corev1.NodeSelectorOpIn, "n2")})}, want: never},
		"affinity that cannot be parsed":      {spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchExpressions: requirement("a b", "Nonsense", "c")})}, want: never},
		"affinity without terms":              {spec: corev1.PodSpec{Affinity: requiredAffinity()}, want: never},
		"preferred affinity is no constraint": {spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, want: run},
		"NoSchedule keeps new ones away":      {taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectNoSchedule)}, want: stay},
		"NoExecute ends what runs":            {taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectNoExecute)}, want: never},
		"PreferNoSchedule is no constraint":   {taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectPreferNoSchedule)}, want: run},
		"tolerated by key": {
			spec:   corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}},
			taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectNoExecute), taint("dedicated", corev1.TaintEffectNoSchedule)}, want: run,
		},
		"tolerated by another value": {
			spec:   corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Value: "no"}}},
			taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectNoSchedule)}, want: stay,
		},
		"everything tolerated": {
			spec:   corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			taints: []corev1.Taint{taint("dedicated", corev1.TaintEffectNoExecute)}, want: run,
		},
		"cordoned":                    {taints: []corev1.Taint{taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}, want: run},
		"not ready and unreachable":   {taints: []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}, want: run},
		"a kubelet that is not ready": {taints: []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule)}, want: run},
		"under pressure":              {taints: []corev1.Taint{taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)}, want: run},
		"no network, pod network":     {taints: []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)}, want: stay},
		"no network, host network":    {spec: corev1.PodSpec{HostNetwork: true}, taints: []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)}, want: run},
		"a node that keeps Pods away": {taints: []corev1.Taint{taint(v1alpha1.TaintNoPods, corev1.TaintEffectNoSchedule)}, want: run},
		"a node that ends Pods":       {taints: []corev1.Taint{taint(v1alpha1.TaintNoPods, corev1.TaintEffectNoExecute)}, want: run},
		"drained":                     {taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Effect: corev1.TaintEffectPreferNoSchedule}}, want: drained},
		"about to be drained":         {taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Value: "hold", Effect: corev1.TaintEffectPreferNoSchedule}}, want: held},
		"drained, with two taints": {
			taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Value: "hold", Effect: corev1.TaintEffectNoExecute}, {Key: "managedworkload.dev/drain", Effect: corev1.TaintEffectNoSchedule}}, want: drained,
		},
		"drained, everything tolerated": {
			spec:   corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Effect: corev1.TaintEffectNoExecute}}, want: drained,
		},
		"drained, tolerated by name": {
			spec:   corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "managedworkload.dev/drain", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}},
			taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule}}, want: run,
		},
		"drained, and kept away by another taint": {
			taints: []corev1.Taint{{Key: "managedworkload.dev/drain", Effect: corev1.TaintEffectPreferNoSchedule}, taint("dedicated", corev1.TaintEffectNoSchedule)}, want: never,
		},
		"taints do not help where it may not": {spec: corev1.PodSpec{NodeSelector: gpu}, taints: []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)}, want: never},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: tc.labels}, Spec: corev1.NodeSpec{Taints: tc.taints}}
			placer := New(&corev1.PodTemplateSpec{Spec: tc.spec})
			if diff := cmp.Diff(tc.want, placer.Place(node)); diff != "" {
				t.Errorf("placement (-want +got):\n%s", diff)
			}
			if reason := placer.Reason(node); (reason == "") != tc.want.ShouldRun {
				t.Errorf("reason %q of %+v", reason, tc.want)
			}
		})
	}
}

func TestReason(t *testing.T) {
	tests := map[string]struct {
		spec   corev1.PodSpec
		taints []corev1.Taint
		want   string
	}{
		"another node": {spec: corev1.PodSpec{NodeName: "n2"}, want: `spec.nodeName is "n2"`},
		"selector":     {spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}, want: "spec.nodeSelector does not match the node's labels"},
		"affinity": {
			spec: corev1.PodSpec{Affinity: requiredAffinity(corev1.NodeSelectorTerm{MatchExpressions: requirement("a", corev1.NodeSelectorOpExists)})},
			want: "spec.affinity.nodeAffinity does not match the node",
		},
		"the taint that ends comes first": {
			taints: []corev1.Taint{taint("b", corev1.TaintEffectNoSchedule), taint("a", corev1.TaintEffectNoExecute)},
			want:   "spec.tolerations does not tolerate the taint a=yes:NoExecute",
		},
		"NoSchedule": {
			taints: []corev1.Taint{taint("b", corev1.TaintEffectNoSchedule)},
			want:   "spec.tolerations does not tolerate the taint b=yes:NoSchedule",
		},
		"it runs": {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: tc.taints}}
			if got := New(&corev1.PodTemplateSpec{Spec: tc.spec}).Reason(node); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
		})
	}
}
