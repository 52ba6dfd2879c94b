// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func matching(e metav1.LabelSelectorRequirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}}
}

// Of a selector above the bounds of the CRD nothing is remembered; others stay as they are.
func TestBoundSelector(t *testing.T) {
	many := map[string]string{}
	for i := range v1alpha1.MaxSelector + 1 {
		many[strings.Repeat("a", i+1)] = "b"
	}
	for name, tt := range map[string]struct {
		selector metav1.LabelSelector
		replaced bool
	}{
		"a small one":      {selector: matching(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b"}})},
		"long, as allowed": {selector: metav1.LabelSelector{MatchLabels: map[string]string{strings.Repeat("a", 317): strings.Repeat("b", 63)}}},
		"a long value":     {metav1.LabelSelector{MatchLabels: map[string]string{"a": strings.Repeat("b", 64)}}, true},
		"a long key":       {metav1.LabelSelector{MatchLabels: map[string]string{strings.Repeat("a", 318): "b"}}, true},
		"many labels":      {metav1.LabelSelector{MatchLabels: many}, true},
		"many expressions": {metav1.LabelSelector{MatchExpressions: slices.Repeat([]metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}, 65)}, true},
		"many values":      {matching(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"b"}, 65)}), true},
		"a value of many":  {matching(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b", strings.Repeat("b", 64)}}), true},
		"a long operator":  {matching(metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOperator(strings.Repeat("o", 64))}), true},
		"a long label":     {matching(metav1.LabelSelectorRequirement{Key: strings.Repeat("a", 318), Operator: metav1.LabelSelectorOpExists}), true},
	} {
		t.Run(name, func(t *testing.T) {
			kr := &v1alpha1.KillRequest{Spec: v1alpha1.KillRequestSpec{Nodes: v1alpha1.RequestNodes{Selector: tt.selector.DeepCopy()}}}
			BoundSelector(kr)
			want := tt.selector
			if tt.replaced {
				want = matching(metav1.LabelSelectorRequirement{Operator: tooLarge})
			}
			if diff := cmp.Diff(&want, kr.Spec.Nodes.Selector); diff != "" {
				t.Errorf("selector (-want +got):\n%s", diff)
			}
		})
	}
}

// A request whose selector is too large to be remembered fails, says why, and reaches no node.
func TestRequestWithALargeSelector(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) {
		kr := &v1alpha1.KillRequest{Spec: *s}
		kr.Spec.Nodes = v1alpha1.RequestNodes{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": strings.Repeat("b", 1<<20)}}}
		BoundSelector(kr)
		s.Nodes = kr.Spec.Nodes
	}, "n1")
	b.look()
	want := "spec.nodes.selector: " + errTooLarge.Error()
	if kr := b.request(); kr.Status.Phase != v1alpha1.RequestFailed || kr.Status.Message != want || len(b.asked()) != 0 {
		t.Errorf("%+v, want %q", kr.Status, want)
	}
}
