// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// managed is a ManagedWorkload with the template that follows.
const managed = `apiVersion: managedworkload.dev/v1alpha1
kind: ManagedWorkload
metadata: {name: web, namespace: shop}
`

func node(spec string) string {
	return `apiVersion: managedworkload.dev/v1alpha1
kind: NodeWorkload
metadata: {name: web-n1}
spec:
` + spec
}

func TestReadErrors(t *testing.T) {
	const good = "  nodeName: n1\n  template: {spec: {containers: [{name: c, image: a}]}}\n"
	tests := map[string]struct {
		text, node string
		want       []string
	}{
		"empty":             {text: "# nothing\n", want: []string{"it is empty"}},
		"two documents":     {text: node(good) + "---\n" + node(good), want: []string{"2 documents"}},
		"no YAML":           {text: "a: b\n\tc: d\n", want: []string{"line 2"}},
		"no kind":           {text: "a: b\n", want: []string{"apiVersion and kind are missing"}},
		"another kind":      {text: "apiVersion: apps/v1\nkind: DaemonSet\n", want: []string{"line 2: ", `"apps/v1"`, `"DaemonSet"`, "kubectl mw convert"}},
		"a Pod":             {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: a}]}\n", want: []string{"line 2: ", `"v1"`, `"Pod"`, `want "managedworkload.dev/v1alpha1" with NodeWorkload or ManagedWorkload`, "spec.template.spec"}},
		"a Deployment":      {text: "apiVersion: apps/v1\nkind: Deployment\n", want: []string{`"Deployment": want "managedworkload.dev/v1alpha1" with NodeWorkload or ManagedWorkload`}},
		"a list":            {text: "apiVersion: managedworkload.dev/v1alpha1\nkind: NodeWorkloadList\nitems: []\n", want: []string{"NodeWorkloadList", "single"}},
		"unknown version":   {text: "apiVersion: managedworkload.dev/v9\nkind: NodeWorkload\n", want: []string{"managedworkload.dev/v9"}},
		"unknown field":     {text: node(strings.Replace(good, "image: a", "imagee: a", 1)), want: []string{`unknown field "spec.template.spec.containers[0].imagee"`}},
		"duplicate key":     {text: node(good + "  nodeName: n2\n"), want: []string{"line 7", "nodeName"}},
		"wrong type":        {text: node(strings.Replace(good, "name: c", "name: [c]", 1)), want: []string{"spec.template.spec.containers.name"}},
		"no node":           {text: node("  template: {spec: {containers: [{name: c, image: a}]}}\n"), want: []string{"spec.nodeName: Required"}},
		"no containers":     {text: node("  nodeName: n1\n"), want: []string{"spec.template.spec.containers: Required"}},
		"no image, no name": {text: node("  nodeName: n1\n  template: {spec: {containers: [{}]}}\n"), want: []string{"spec.template.spec.containers[0].name", "spec.template.spec.containers[0].image"}},
		"one name twice":    {text: node("  nodeName: n1\n  template: {spec: {initContainers: [{name: c, image: a}], containers: [{name: c, image: a}]}}\n"), want: []string{"spec.template.spec.initContainers[0].name: Duplicate"}},
		"refused field": {
			text: node("  nodeName: n1\n  template: {spec: {hostnameOverride: other, containers: [{name: c, image: a, env: [{name: E, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}}\n"),
			want: []string{"spec.template.spec.hostnameOverride", "spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef"},
		},
		"times that are none": {
			text: node("  nodeName: n1\n  template: {spec: {activeDeadlineSeconds: 0, terminationGracePeriodSeconds: -1, containers: [{name: c, image: a}]}}\n"),
			want: []string{"spec.template.spec.activeDeadlineSeconds", "spec.template.spec.terminationGracePeriodSeconds"},
		},
		"another node":       {text: node(good), node: "n2", want: []string{"line 5: spec.nodeName", `"n1"`, `"n2"`}},
		"for which node":     {text: managed + "spec: {template: {spec: {containers: [{name: c, image: a}]}}}\n", want: []string{"--node-name"}},
		"no name":            {text: strings.Replace(node(good), "name: web-n1", "namespace: shop", 1), want: []string{"metadata.name: Required"}},
		"no name, of a node": {text: strings.Replace(managed, "name: web, ", "", 1), node: "n1", want: []string{"metadata.name: Required"}},
		"being deleted": {
			text: strings.Replace(managed, "name: web,", "name: web, deletionTimestamp: 2026-01-01T00:00:00Z,", 1), node: "n1",
			want: []string{"metadata.deletionTimestamp"},
		},
		"an unknown field has its line":   {text: node(good + "  typo: 1\n"), want: []string{"line 7", `"spec.typo"`}},
		"a missing image has its line":    {text: node("  nodeName: n1\n  template:\n    spec:\n      containers:\n      - name: c\n"), want: []string{"line 9", "spec.template.spec.containers[0].image"}},
		"lines count from the file's top": {text: "# first\n---\n" + node(good+"  typo: 1\n"), want: []string{"line 9"}},
		"a list of two":                   {text: "{apiVersion: v1, kind: List, items: [{}, {}]}", want: []string{"list of 2 objects"}},
		"too long":                        {text: strings.Repeat("#", MaxSize+1), want: []string{"longer than"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Reader{Node: tc.node}.Read(strings.NewReader(tc.text))
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// What both the API server's validation and the table of fields refuse is named once.
func TestAnUnknownStopSignalIsNamedOnce(t *testing.T) {
	text := node("  nodeName: n1\n  template: {spec: {containers: [{name: c, image: a, lifecycle: {stopSignal: SIGTREM}}]}}\n")
	_, err := Reader{}.Read(strings.NewReader(text))
	if err == nil {
		t.Fatal("it was accepted")
	}
	if n := strings.Count(err.Error(), `containers[0].lifecycle.stopSignal: Unsupported value: "SIGTREM"`); n != 1 {
		t.Errorf("the field is named %d times, want 1: %v", n, err)
	}
}

func TestRead(t *testing.T) {
	const template = `{template: {spec: {containers: [{name: c, image: a}]}}}`
	tests := map[string]struct {
		text, node          string
		namespace, name, on string
	}{
		"NodeWorkload":      {text: node("  nodeName: n1\n  template: {spec: {containers: [{name: c, image: a}]}}\n"), namespace: "default", name: "web-n1", on: "n1"},
		"of the named node": {text: node("  nodeName: n1\n  template: {spec: {containers: [{name: c, image: a}]}}\n"), node: "n1", namespace: "default", name: "web-n1", on: "n1"},
		"ManagedWorkload":   {text: managed + "spec: " + template, node: "n7", namespace: "shop", name: "web-n7-e8c48203b0", on: "n7"},
		"a list of one":     {text: "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(node("  nodeName: n1\n  template: {spec: {containers: [{name: c, image: a}]}}\n")), "\n", "\n  "), namespace: "default", name: "web-n1", on: "n1"},
		"after a comment":   {text: "# hello\n---\n" + managed + "spec: " + template + "\n---\n", node: "n7", namespace: "shop", name: "web-n7-e8c48203b0", on: "n7"},
		"JSON": {
			text: `{"apiVersion": "managedworkload.dev/v1alpha1", "kind": "ManagedWorkload", "metadata": {"name": "w"},
				"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}}}`,
			node: "n1", namespace: "default", name: "w-n1-348835682e", on: "n1",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw, err := Reader{Node: tc.node}.Read(strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			got := []string{nw.Namespace, nw.Name, nw.Spec.NodeName, nw.Template.Spec.Containers[0].Image}
			if diff := cmp.Diff([]string{tc.namespace, tc.name, tc.on, "a"}, got); diff != "" {
				t.Errorf("namespace, name, node and image (-want +got):\n%s", diff)
			}
		})
	}
}

// What kubectl prints can be read: status and managed fields are no surprise.
func TestReadFromKubectl(t *testing.T) {
	file, err := os.Open("testdata/kubectl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // It is only read.
	nw, err := Reader{}.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if nw.UID == "" || nw.Status.Phase == "" || nw.Spec.NodeName == "" {
		t.Errorf("read %+v", nw)
	}
}
