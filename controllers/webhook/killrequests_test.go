// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// The KillRequests of a namespace are bounded: how many there are, and how many nodes and labels they name. A refusal
// says which bound is reached. Requests of other namespaces do not count.
func TestKillRequestsOfANamespaceAreBounded(t *testing.T) {
	request := func(i, nodes, values int, over bool) *v1alpha1.KillRequest {
		kr := &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint("kr-", i)}}
		for n := range nodes {
			kr.Spec.Nodes.Names = append(kr.Spec.Nodes.Names, fmt.Sprint("node-", n))
		}
		if values > 0 {
			kr.Spec.Nodes.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: make([]string, values)},
			}}
		}
		if over {
			kr.Status.CompletionTime = new(metav1.Now())
		}
		return kr
	}
	tests := map[string]struct {
		there, nodes int
		// values are those of each selector.
		values    int
		over      bool
		namespace string
		want      string
	}{
		"none yet":                  {},
		"one below":                 {there: 199},
		"as many as may be open":    {there: 200, want: "namespace tenant has 200 KillRequests that are not over, and may have 200"},
		"as many that are over":     {there: 200, over: true},
		"of another namespace":      {there: 200, namespace: "other"},
		"as many as may be kept":    {there: 2000, over: true, want: "spec.ttlSecondsAfterFinished"},
		"few that name many nodes":  {there: 50, nodes: 1000, want: "would name 51000 nodes and values of labels, and may name 50000"},
		"few that select by many":   {there: 49, nodes: 500, values: 500, want: "would name 50050 nodes and values"},
		"and of another namespace":  {there: 50, nodes: 1000, namespace: "other"},
		"as many as they may named": {there: 49, nodes: 1000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for i := range tc.there {
				objects = append(objects, request(i, tc.nodes, tc.values, tc.over))
			}
			b := &requestBounds{fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(objects...).Build()}
			kr := request(-1, tc.nodes, tc.values, false)
			if tc.namespace != "" {
				kr.Namespace = tc.namespace
			}
			_, err := b.ValidateCreate(t.Context(), kr)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// What a path says nothing about is not refused there: an API server that shows nothing gets no count.
func TestAnotherKindIsNotRefused(t *testing.T) {
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind{Kind: "KillRequest"}}}
	if got := (byKind{}).Handle(t.Context(), request); !got.Allowed {
		t.Errorf("%+v", got)
	}
}
