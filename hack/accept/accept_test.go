// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTemplatesAreReadInOrderAndOthersLeft(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "spec: {serviceAccountName: b}", "a.yml": "spec: {futureField: 1}", "README.md": "no template",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	templates, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(templates) != 2 || templates[0].name != "a" || templates[1].typed.Spec.ServiceAccountName != "b" {
		t.Errorf("templates %+v", templates)
	}
	// The API server is to see what no type here knows.
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"futureField": float64(1)}}, templates[0].raw); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoTemplateIsNamed(t *testing.T) {
	tests := map[string]struct{ file, text, want string }{
		"a DaemonSet's spec": {"ds.yaml", "template: {spec: {}}", "ds.yaml: there is no spec"},
		"a whole DaemonSet":  {"ds.yaml", "kind: DaemonSet\nspec: {template: {spec: {}}}", "ds.yaml: it is a whole DaemonSet: the file has to hold what stands under its spec.template"},
		"no template at all": {"notes.txt", "", "has no .yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTableSaysFieldAndAdvice(t *testing.T) {
	refused := verdict{Template: "nfs", Refused: refusals(metav1.Status{Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
		{Field: "spec.template.spec.volumes[0].persistentVolumeClaim", Message: "use hostPath"},
	}}})}
	accepted := verdict{Template: "agent"}
	accepted.sort([]string{"spec.template.spec.schedulerName is ignored", "deprecated", "deprecated"})
	var text strings.Builder
	if err := printTable(&text, []verdict{accepted, {Template: "plain"}, refused}); err != nil {
		t.Fatal(err)
	}
	want := `TEMPLATE  VERDICT   FIELD                                            ADVICE
agent     accepted  spec.template.spec.schedulerName                 ignored
                                                                     warning: deprecated
plain     accepted                                                   
nfs       refused   spec.template.spec.volumes[0].persistentVolumeClaim  use hostPath

2 accepted, 1 refused
`
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(text.String())); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
