// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// tooLarge is the operator of what stands for a selector above the bounds of the CRD.
const tooLarge = metav1.LabelSelectorOperator("TooLarge")

var errTooLarge = errors.New("it has more labels, or longer ones, than the selector of a KillRequest may have: delete this request, and make several with smaller selectors")

// BoundSelector replaces a selector above the bounds of the CRD, which the manager does not remember whole. An
// earlier CRD may have let it in. The request fails.
func BoundSelector(kr *v1alpha1.KillRequest) {
	if selector := kr.Spec.Nodes.Selector; selector != nil && isTooLarge(selector) {
		kr.Spec.Nodes.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Operator: tooLarge}}}
	}
}

func isTooLarge(selector *metav1.LabelSelector) bool {
	long := func(value string) bool { return len(value) > v1alpha1.MaxLabelValue }
	if len(selector.MatchLabels) > v1alpha1.MaxSelector || len(selector.MatchExpressions) > v1alpha1.MaxSelector {
		return true
	}
	for key, value := range selector.MatchLabels {
		if len(key) > v1alpha1.MaxLabelKey || long(value) {
			return true
		}
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return len(e.Key) > v1alpha1.MaxLabelKey || long(string(e.Operator)) || len(e.Values) > v1alpha1.MaxSelector || slices.ContainsFunc(e.Values, long)
	})
}

// selectorError says why a selector cannot be used.
func selectorError(selector *metav1.LabelSelector, err error) error {
	if slices.ContainsFunc(selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Operator == tooLarge }) {
		err = errTooLarge
	}
	return fmt.Errorf("spec.nodes.selector: %w", err)
}
