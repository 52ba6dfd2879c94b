// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A field of a template that is null is one that is left out, as in a DaemonSet, also where it is applied on the
// server's side: Helm charts and generators write such fields. What has to be there is for the condition Accepted.
func TestNullIsTakenAsInADaemonSet(t *testing.T) {
	c := newCluster(t)
	var whole map[string]any
	c.must(yaml.Unmarshal([]byte(fullTemplate), &whole))
	app := whole["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	c.must(unstructured.SetNestedField(app, "100m", "resources", "requests", "cpu")) // a number is for the API server's own kinds
	unstructured.RemoveNestedField(whole, "spec", "activeDeadlineSeconds")           // which a DaemonSet may not have
	unstructured.RemoveNestedField(whole, "spec", "restartPolicy")
	selected := map[string]any{"a": "b"}
	c.must(unstructured.SetNestedMap(whole, maps.Clone(selected), "metadata", "labels"))
	stored, crd := &unstructured.Unstructured{}, &apiextensionsv1.CustomResourceDefinition{}
	stored.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	c.must(api.Get(t.Context(), client.ObjectKey{Name: "managedworkloads.managedworkload.dev"}, stored))
	c.must(runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, crd))
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"]

	apply := func(kind string, spec map[string]any) error {
		u := c.object(kind, "nulls", runtime.DeepCopyJSON(spec))
		if kind == "DaemonSet" {
			u.SetAPIVersion("apps/v1")
			u.Object["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": maps.Clone(selected)}
		}
		return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("helm"), client.ForceOwnership, client.DryRunAll)
	}
	c.must(apply("ManagedWorkload", map[string]any{"template": whole}))
	c.must(apply("DaemonSet", map[string]any{"template": whole}))

	tried, taken := 0, 0
	var try func(path string, schema apiextensionsv1.JSONSchemaProps, node map[string]any)
	try = func(path string, schema apiextensionsv1.JSONSchemaProps, node map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			had, has := node[name]
			node[name] = nil
			ours, theirs := apply("ManagedWorkload", map[string]any{"template": whole}), apply("DaemonSet", map[string]any{"template": whole})
			if node[name] = had; !has {
				delete(node, name)
			}
			tried++
			if theirs == nil {
				taken++
			}
			if ours != nil && theirs == nil && !(strings.HasSuffix(path, "httpHeaders[0]") && name == "value") { // which must be there
				t.Errorf("%s.%s: null is refused: %v", path, name, ours)
			}
			child := schema.Properties[name]
			switch had := had.(type) {
			case map[string]any:
				try(path+"."+name, child, had)
			case []any:
				if first, ok := had[0].(map[string]any); ok {
					try(path+"."+name+"[0]", *child.Items.Schema, first)
				}
			}
		}
	}
	try("template", schema, whole)
	t.Logf("%d fields tried, %d may be null", tried, taken)
	if taken < 100 {
		t.Errorf("only %d fields of a DaemonSet's template may be null", taken)
	}
}
