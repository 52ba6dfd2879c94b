// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdtrim edits CRD files in place. It shortens the descriptions of embedded
// core/v1 types to their first sentence where people write the object, and removes them
// where they do not: with all of them a CRD is larger than the annotation of a
// client-side kubectl apply may be. It refuses in the schema what no Pod may say, and
// what the manager could not decode. And it takes null where a DaemonSet may have it.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// embedded are the properties whose schema is a core/v1 type.
var embedded = map[string]bool{
	"template":              true,
	"containerStatuses":     true,
	"initContainerStatuses": true,
}

// written is the kind that people write.
const written = "ManagedWorkload"

// maxPort is the highest port.
const maxPort = 65535

func main() {
	for _, file := range os.Args[1:] {
		if err := trim(file); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %v\n", err)
			os.Exit(1)
		}
	}
}

func trim(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return fmt.Errorf("parse CRD %s: %w", file, err)
	}
	describe := func(string) string { return "" }
	switch at(crd, "spec", "names")["kind"] {
	case "KillRequest":
		boundSelector(property(schemaOf(crd), "spec", "nodes", "selector"))
	case written:
		describe = firstSentence
		if err := limit(crd); err != nil {
			return fmt.Errorf("limit CRD %s: %w", file, err)
		}
	}
	walk(crd, false, describe)
	decodable(crd)
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encode CRD %s: %w", file, err)
	}
	if err := os.WriteFile(file, append([]byte("---\n"), out...), 0o644); err != nil {
		return fmt.Errorf("write CRD: %w", err)
	}
	return nil
}

// flowing returns a description without the line breaks of the Go comment: kubectl explain
// breaks lines itself. Paragraphs and lists stay.
func flowing(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case i == 0:
		case trimmed == "" || strings.HasPrefix(trimmed, "- ") || strings.HasSuffix(b.String(), "\n"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}

// firstSentence returns the first sentence of a description, on one line.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if sentence, _, more := strings.Cut(text, ". "); more && !strings.HasSuffix(sentence, "e.g") && !strings.HasSuffix(sentence, "i.e") {
		return sentence + "."
	}
	return text
}

// boundSelector bounds the label selector of a KillRequest, of which the manager remembers many: metav1 has no
// bounds.
func boundSelector(selector map[string]any) {
	labels, expressions := property(selector, "matchLabels"), property(selector, "matchExpressions")
	labels["maxProperties"] = v1alpha1.MaxSelector
	at(labels, "additionalProperties")["maxLength"] = v1alpha1.MaxLabelValue
	labels["x-kubernetes-validations"] = []any{map[string]any{
		"rule":    fmt.Sprintf("self.all(key, key.size() <= %d)", v1alpha1.MaxLabelKey),
		"message": fmt.Sprintf("keys of labels have %d characters at most", v1alpha1.MaxLabelKey),
	}}
	expressions["maxItems"] = v1alpha1.MaxSelector
	expression := at(expressions, "items")
	property(expression, "key")["maxLength"] = v1alpha1.MaxLabelKey
	property(expression, "operator")["maxLength"] = v1alpha1.MaxLabelValue
	property(expression, "values")["maxItems"] = v1alpha1.MaxSelector
	at(property(expression, "values"), "items")["maxLength"] = v1alpha1.MaxLabelValue
}

// walk visits a schema; inside says that it is below an embedded type, whose descriptions
// become what describe makes of them.
func walk(node any, inside bool, describe func(string) string) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			walk(v, inside, describe)
		}
	case map[string]any:
		if text, isText := n["description"].(string); isText {
			text = flowing(text)
			if inside {
				text = describe(text)
			}
			if n["description"] = text; text == "" {
				delete(n, "description")
			}
		}
		properties, _ := n["properties"].(map[string]any)
		for name, v := range properties {
			walkProperty(v, inside, embedded[name], describe)
		}
		for key, v := range n {
			if key != "properties" {
				walk(v, inside, describe)
			}
		}
	}
}

// walkProperty keeps the description of an embedded property itself.
func walkProperty(node any, inside, isEmbedded bool, describe func(string) string) {
	schema, ok := node.(map[string]any)
	if !ok || inside || !isEmbedded {
		walk(node, inside, describe)
		return
	}
	own, has := schema["description"].(string)
	walk(node, true, describe)
	if has {
		schema["description"] = flowing(own)
	}
}

// schemaOf is the schema of the only version, nil if there is not one.
func schemaOf(crd map[string]any) map[string]any {
	versions, _ := at(crd, "spec")["versions"].([]any)
	if len(versions) != 1 {
		return nil
	}
	version, _ := versions[0].(map[string]any)
	return at(version, "schema", "openAPIV3Schema")
}

// limit adds what Pod validation refuses everywhere and a schema can say.
// (kubernetes pkg/apis/core/validation/validation.go)
func limit(crd map[string]any) error {
	schema := schemaOf(crd)
	spec := property(schema, "spec", "template", "spec")
	if spec == nil {
		return errors.New("it has not one version with a template")
	}
	metadata := property(schema, "spec", "template", "metadata")
	maps.Copy(at(metadata, "properties"), objectMeta())
	property(spec, "terminationGracePeriodSeconds")["minimum"] = 0
	property(spec, "activeDeadlineSeconds")["minimum"] = 1
	property(spec, "containers")["minItems"] = 1
	for _, list := range []string{"containers", "initContainers"} {
		container := at(property(spec, list), "items")
		label(property(container, "name"))
		ports := at(property(container, "ports"), "items")
		between(property(ports, "containerPort"), 1, maxPort)
		between(property(ports, "hostPort"), 0, maxPort)
		property(ports, "name")["maxLength"] = 15
		for _, hook := range []string{"preStop", "postStart"} {
			property(container, "lifecycle", hook, "sleep", "seconds")["minimum"] = 0
			between(property(container, "lifecycle", hook, "httpGet", "port"), 1, maxPort)
			between(property(container, "lifecycle", hook, "tcpSocket", "port"), 1, maxPort)
		}
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			for _, number := range []string{"failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds"} {
				property(container, probe, number)["minimum"] = 0
			}
			property(container, probe, "terminationGracePeriodSeconds")["minimum"] = 1
			between(property(container, probe, "httpGet", "port"), 1, maxPort)
			between(property(container, probe, "tcpSocket", "port"), 1, maxPort)
			between(property(container, probe, "grpc", "port"), 1, maxPort)
		}
	}
	label(property(at(property(spec, "volumes"), "items"), "name"))
	takeNull(property(schema, "spec"))
	return nil
}

// takeNull lets each field of a schema be null that may be left out, and has no default. The API
// server drops such a null from what is created, and refuses it in what is applied on its side,
// where the fields of its own kinds take it; so do the values of maps. What an object in a list is known by is never
// null, nor is one of a list of values: the API server compares it with them, and null is equal to nothing.
func takeNull(schema map[string]any) {
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range properties {
		child, _ := v.(map[string]any)
		_, hasDefault := child["default"]
		if !hasDefault && child["enum"] == nil && !slices.Contains(required, any(name)) {
			child["nullable"] = true
		}
		takeNull(child)
	}
	if values := at(schema, "additionalProperties"); values != nil {
		values["nullable"] = true
		takeNull(values)
	}
	if items := at(schema, "items"); items != nil {
		takeNull(items)
		keys, _ := schema["x-kubernetes-list-map-keys"].([]any)
		for _, key := range keys {
			delete(property(items, fmt.Sprint(key)), "nullable")
		}
	}
}

// objectMeta are the fields of a template's metadata that controller-gen leaves out. They have
// no effect in any template, and tools write them: creationTimestamp: null above all.
func objectMeta() map[string]any {
	form := func(kind string) map[string]any { return map[string]any{"type": kind} }
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	list := func(items map[string]any) map[string]any { return map[string]any{"type": "array", "items": items} }
	moment := func() map[string]any {
		return map[string]any{"type": "string", "format": "date-time", "nullable": true}
	}
	number := func() map[string]any { return map[string]any{"type": "integer", "format": "int64"} }
	return map[string]any{
		"creationTimestamp": moment(), "deletionTimestamp": moment(), "deletionGracePeriodSeconds": number(), "generation": number(),
		"generateName": form("string"), "resourceVersion": form("string"), "selfLink": form("string"), "uid": form("string"),
		"ownerReferences": list(object(map[string]any{
			"apiVersion": form("string"), "kind": form("string"), "name": form("string"), "uid": form("string"),
			"controller": form("boolean"), "blockOwnerDeletion": form("boolean"),
		})),
		"managedFields": list(object(map[string]any{
			"apiVersion": form("string"), "fieldsType": form("string"), "manager": form("string"), "operation": form("string"),
			"subresource": form("string"), "time": moment(),
			"fieldsV1": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		})),
	}
}

// label is the form of a DNS label.
func label(schema map[string]any) {
	schema["minLength"], schema["maxLength"] = 1, 63
	schema["pattern"] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
}

func between(schema map[string]any, least, most int) {
	schema["minimum"], schema["maximum"] = least, most
}

// property is the schema of a property; nil if there is none.
func property(schema map[string]any, path ...string) map[string]any {
	for _, name := range path {
		schema = at(schema, "properties", name)
	}
	return schema
}

func at(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}
