// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// leaf is a place in a CRD's schema where a single value stands.
type leaf struct {
	path   string // .spec.template.spec.containers[].name
	schema *apiextensionsv1.JSONSchemaProps
	check  *validate.SchemaValidator
	wrap   func(value any) any // puts a value at that place in an object
}

// longest is how long the decoding of one value may take.
const longest = 5 * time.Second

// kinds are the types that the leaves of each CRD are decoded into.
var kinds = map[string]func() any{
	"managedworkloads":         func() any { return &ManagedWorkload{} },
	"managedworkloadrevisions": func() any { return &ManagedWorkloadRevision{} },
	"nodeworkloads":            func() any { return &NodeWorkload{} },
}

// schemaless are leaves without a schema. Only a caller that manages can write them
// (config/policy): nothing else bounds their values.
var schemaless = []string{"managedworkloadrevisions.spec.template"}

// The manager decodes lists and watches of a kind in all namespaces. One stored object that
// it cannot decode ends them all, so what the API server admits must decode.
func TestWhatTheSchemaAdmitsDecodes(t *testing.T) {
	for plural, newObject := range kinds {
		t.Run(plural, func(t *testing.T) {
			for _, l := range leaves(t, plural) {
				for _, value := range edges(l.schema) {
					if err := l.decode(value, newObject()); err != nil {
						t.Errorf("%s admits %v (%T): %v", l.path, value, value, err)
					}
				}
			}
		})
	}
}

func TestAnyValueThatTheSchemaAdmitsDecodes(t *testing.T) {
	for plural, newObject := range kinds {
		t.Run(plural, func(t *testing.T) {
			all := leaves(t, plural)
			rapid.Check(t, func(rt *rapid.T) {
				l := rapid.SampledFrom(all).Draw(rt, "leaf")
				value := anyValue(l.schema).Draw(rt, "value")
				if err := l.decode(value, newObject()); err != nil {
					rt.Fatalf("%s admits %v (%T): %v", l.path, value, value, err)
				}
			})
		})
	}
}

// decode fails for a value that the schema admits and the object does not decode.
func (l leaf) decode(value, object any) error {
	if !l.check.Validate(value).IsValid() {
		return nil
	}
	text, err := json.Marshal(l.wrap(value))
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- kjson.UnmarshalCaseSensitivePreserveInts(text, object) }()
	select {
	case err := <-done:
		return err
	case <-time.After(longest):
		return fmt.Errorf("decoding takes more than %v", longest)
	}
}

// leaves are those of a CRD's only version.
func leaves(t *testing.T, plural string) []leaf {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/managedworkload.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	// The API server decodes these by itself.
	for _, own := range []string{"apiVersion", "kind", "metadata"} {
		delete(schema.Properties, own)
	}
	found := below(t, plural, schema, func(value any) any { return value })
	if len(found) == 0 {
		t.Fatalf("%s has no leaf", plural)
	}
	return found
}

func below(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps, wrap func(any) any) []leaf {
	t.Helper()
	switch {
	case len(schema.Properties) > 0:
		var all []leaf
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			property := schema.Properties[name]
			all = append(all, below(t, path+"."+name, &property, func(value any) any { return wrap(map[string]any{name: value}) })...)
		}
		return all
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return below(t, path+"{}", schema.AdditionalProperties.Schema, func(value any) any { return wrap(map[string]any{"key": value}) })
	case schema.Items != nil && schema.Items.Schema != nil:
		return below(t, path+"[]", schema.Items.Schema, func(value any) any { return wrap([]any{value}) })
	case slices.Contains(schemaless, path):
		return nil
	}
	return []leaf{{path, schema, checks(t, schema), wrap}}
}

// checks are those that the API server makes of a single value with a leaf's schema.
func checks(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) *validate.SchemaValidator {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	known := &spec.Schema{}
	if err := json.Unmarshal(text, known); err != nil {
		t.Fatal(err)
	}
	if schema.XIntOrString {
		known.Type = spec.StringOrArray{"integer", "string"}
	}
	return validate.NewSchemaValidator(known, nil, "", strfmt.Default)
}

// numbers are at and beyond the bounds of Go's types. The API server keeps what is no int64
// as a float64.
var numbers = []any{
	int64(0), int64(1), int64(-1), int64(65536), int64(1) << 31, int64(math.MaxInt32), int64(math.MinInt32), int64(math.MinInt32) - 1,
	int64(1) << 32, int64(math.MaxInt64), int64(math.MinInt64), float64(1), 1.5, float64(1 << 31), float64(1 << 32), float64(1 << 63),
	-float64(1<<63) * 1.5, 1e19, 1e20, 1e21, 1e300, -1e300,
}

var texts = []any{
	"", " ", "a", "0", "-1", "null", "true", "\x00", "4294967296", "50%", strings.Repeat("9", 300), strings.Repeat("a", 5000),
	"AA==", "AA=", "1s", "1h1m", "-1ns", "9999999h",
	// Quantities.
	"1e1.5", "1E.5", "1e+1.", "1E400", "1e-400", "1e2147483647", "12345678901234567890e99999", "1e2147483648", "1e9223372036854775808", "0x1", "1Ki", "1.5Ki", ".5", "5.", "+1", "1e3", "1E", "1n", "1i",
	"0." + strings.Repeat("0", 100) + "1", strings.Repeat("9", 40) + "E30", "1k", "1K", "1Ei", "1 ", "\n1", "1\n",
	// Times: metav1.Time takes RFC 3339, metav1.MicroTime wants six digits of a second.
	"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789123Z",
	"2026-01-02t03:04:05z", "2026-01-02t03:04:05.123456z", "2026-01-02T03:04:05x5Z", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05x123456Z", "2026-01-02T03:04:05,123456Z",
	"2026-01-02T03:04:60Z", "2026-01-02T03:04:60.000000Z", "2026-01-02T23:59:60Z", "2026-01-02T24:00:00Z", "2026-01-02T24:00:00.000000Z",
	"2026-02-30T03:04:05Z", "2026-02-30T03:04:05.000000Z", "2026-02-29T03:04:05.000000Z", "2024-02-29T03:04:05.000000Z", "2026-04-31T03:04:05.000000Z",
	"2026-13-01T03:04:05Z", "2026-00-01T03:04:05Z", "0000-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "0000-01-01T00:00:00.000000Z",
	"10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "2026-01-02T03:04:05+99:99", "2026-01-02T03:04:05.000000+99:99",
	"2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05.000000+24:59", "2026-01-02T03:04:05+0100", "2026-01-02T03:04:05.000000-01:00", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-01-02",
	"2026-01-02T03:04:05.000000", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05Z\n", "2026-01-02T03:04:05.000000Z\n",
}

// edges are values at the bounds of what a leaf may be; the schema refuses most of them.
func edges(schema *apiextensionsv1.JSONSchemaProps) []any {
	all := slices.Concat(numbers, texts, []any{true, false, map[string]any{}, []any{}, map[string]any{"a": "b"}, []any{"a"}})
	for _, value := range schema.Enum {
		all = append(all, strings.Trim(string(value.Raw), `"`))
	}
	return all
}

// anyValue is a number, a text, and what looks like what the leaf wants.
func anyValue(schema *apiextensionsv1.JSONSchemaProps) *rapid.Generator[any] {
	all := []*rapid.Generator[any]{
		rapid.SampledFrom(edges(schema)),
		rapid.Int64().AsAny(),
		rapid.Float64Range(-1e30, 1e30).AsAny(),
		rapid.String().AsAny(),
		rapid.StringMatching(`[+-]?[0-9]{0,4}\.?[0-9]{0,25}([KMGTPEnumk]i?|[eE][+-]?[0-9]{0,6}\.?[0-9]?)?`).AsAny(),
		rapid.StringMatching(`[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,x][0-9]{0,10})?([Zz]|[+-][0-9]{2}:[0-9]{2})?`).AsAny(),
	}
	if schema.Pattern != "" {
		all = append(all, rapid.StringMatching(schema.Pattern).AsAny())
	}
	return rapid.OneOf(all...)
}
