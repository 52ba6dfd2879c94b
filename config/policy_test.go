// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Whatever renames the policies renames what binds them: a binding without a policy
// enforces nothing.
func TestBindingsNameTheirPolicies(t *testing.T) {
	for _, edit := range []string{"", "namePrefix: team-a-\n"} {
		policies, bound := map[string]bool{}, 0
		objects := kustomization{base: "default", edit: edit}.render(t)
		for _, o := range objects {
			if strings.HasSuffix(o.GetKind(), "AdmissionPolicy") {
				policies[o.GetKind()+" "+o.GetName()] = true
			}
		}
		for _, o := range objects {
			kind, is := strings.CutSuffix(o.GetKind(), "Binding")
			if !is || !strings.HasSuffix(kind, "AdmissionPolicy") {
				continue
			}
			bound++
			name, _, _ := unstructured.NestedString(o.Object, "spec", "policyName")
			if !policies[kind+" "+name] {
				t.Errorf("%q: %s %s is bound to %s, which does not exist", edit, o.GetKind(), o.GetName(), name)
			}
		}
		if bound == 0 || bound != len(policies) {
			t.Errorf("%q: %d bindings of %d policies", edit, bound, len(policies))
		}
	}
}

// Whatever renames the priority level renames it where the shims' flows name it.
func TestFlowsNameTheirPriorityLevel(t *testing.T) {
	for _, edit := range []string{"", "namePrefix: team-a-\n"} {
		names := map[string]string{}
		for _, o := range (kustomization{base: "default", edit: edit}).render(t) {
			switch o.GetKind() {
			case "FlowSchema":
				names["named"], _, _ = unstructured.NestedString(o.Object, "spec", "priorityLevelConfiguration", "name")
			case "PriorityLevelConfiguration":
				names["is"] = o.GetName()
			}
		}
		if names["is"] == "" || names["named"] != names["is"] {
			t.Errorf("%q: %v", edit, names)
		}
	}
}
