// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A field that is null is one that is left out, as in a DaemonSet, also where it is applied on the server's side:
// Helm charts and generators write such fields. What has to be there is for the condition Accepted.
func TestNullIsTakenAsInADaemonSet(t *testing.T) {
	c := newCluster(t)
	var template map[string]any
	c.must(yaml.Unmarshal([]byte(fullTemplate), &template))
	app := template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	c.must(unstructured.SetNestedField(app, "100m", "resources", "requests", "cpu")) // a number is for the API server's own kinds
	unstructured.RemoveNestedField(template, "spec", "activeDeadlineSeconds")        // which a DaemonSet may not have
	unstructured.RemoveNestedField(template, "spec", "restartPolicy")
	selected := map[string]any{"a": "b"}
	c.must(unstructured.SetNestedMap(template, maps.Clone(selected), "metadata", "labels"))
	spec := map[string]any{
		"template": template, "minReadySeconds": int64(1), "revisionHistoryLimit": int64(1),
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1)}},
	}
	object := func(kind string) *unstructured.Unstructured {
		u := c.object(kind, "nulls", runtime.DeepCopyJSON(spec))
		if kind == "DaemonSet" {
			u.SetAPIVersion("apps/v1")
			u.Object["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": maps.Clone(selected)}
		}
		return u
	}
	apply := func(kind string) error {
		return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object(kind)), client.FieldOwner("helm"), client.ForceOwnership, client.DryRunAll)
	}
	create := func(kind string) error {
		return api.Create(t.Context(), object(kind), client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)
	}
	tried, taken := 0, 0
	compare := func(path string) {
		tried++
		for how, send := range map[string]func(kind string) error{"applied on the server's side": apply, "created": create} {
			ours, theirs := send("ManagedWorkload"), send("DaemonSet")
			if theirs == nil {
				taken++
			}
			mustBeThere := strings.HasSuffix(path, "httpHeaders[0].value") || isEnum(path) && how != "created"
			if ours != nil && theirs == nil && !mustBeThere {
				t.Errorf("%s: null is refused where it is %s: %v", path, how, ours)
			}
		}
	}
	compare("nothing")
	walkNulls("spec", specSchema(c), spec, compare)
	t.Logf("%d fields tried; they may be null %d times", tried, taken)
	if taken < 200 {
		t.Errorf("the fields of a DaemonSet may be null only %d times", taken)
	}
}

// What a DaemonSet does not have may be null as well.
func TestNullIsTakenInOurFields(t *testing.T) {
	c := newCluster(t)
	spec := map[string]any{
		"minReadySeconds": int64(1), "paused": true, "progressDeadlineSeconds": int64(700), "revisionHistoryLimit": int64(1),
		"restartBackoff": map[string]any{"baseSeconds": int64(1), "maxSeconds": int64(2)},
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"maxUnavailable": int64(1), "partition": int64(1), "nodeSelector": map[string]any{"a": "b"},
		}},
	}
	schema := specSchema(c)
	delete(schema.Properties, "template")
	walkNulls("spec", schema, spec, func(path string) {
		whole := runtime.DeepCopyJSON(spec)
		whole["template"] = templateWith(nil, nil)
		u := c.object("ManagedWorkload", "nulls", whole)
		if err := api.Create(t.Context(), u.DeepCopy(), client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll); err != nil {
			t.Errorf("%s: null is refused where it is created: %v", path, err)
		}
		if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("helm"), client.DryRunAll); err != nil && !isEnum(path) {
			t.Errorf("%s: null is refused where it is applied on the server's side: %v", path, err)
		}
	})
}

// isEnum reports whether a field has one of a list of values. The API server compares null with them where it was not
// dropped.
func isEnum(path string) bool { return path == "spec.updateStrategy.type" }

// specSchema is the schema of a ManagedWorkload's spec, as the API server has it.
func specSchema(c *cluster) apiextensionsv1.JSONSchemaProps {
	stored, crd := &unstructured.Unstructured{}, &apiextensionsv1.CustomResourceDefinition{}
	stored.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	c.must(api.Get(c.t.Context(), client.ObjectKey{Name: "managedworkloads.managedworkload.dev"}, stored))
	c.must(runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// walkNulls calls try with the path of each field of a node in turn, and of a value of each map, while that is null.
func walkNulls(path string, schema apiextensionsv1.JSONSchemaProps, node map[string]any, try func(path string)) {
	names := slices.Sorted(maps.Keys(schema.Properties))
	if schema.AdditionalProperties != nil {
		names = slices.Sorted(maps.Keys(node))
	}
	for _, name := range names {
		had, has := node[name]
		node[name] = nil
		try(path + "." + name)
		if node[name] = had; !has {
			delete(node, name)
		}
		child := schema.Properties[name]
		switch had := had.(type) {
		case map[string]any:
			walkNulls(path+"."+name, child, had, try)
		case []any:
			if first, ok := had[0].(map[string]any); ok {
				walkNulls(path+"."+name+"[0]", *child.Items.Schema, first, try)
			}
		}
	}
}
