// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// inSpec is an object with a field of spec in its sixth line.
func inSpec(kind, spec string) string {
	return "apiVersion: managedworkload.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: w}\nspec:\n" +
		"  template: {spec: {containers: [{name: c, image: a}]}}\n  " + spec + "\n"
}

// Every field of a spec in a file is honoured by the shim, or refused: no manager sees it.
func TestEveryFieldOfASpecIsHonouredOrRefused(t *testing.T) {
	values := map[string]string{
		"ManagedWorkload.template": "", "NodeWorkload.template": "",
		"ManagedWorkload.restartBackoff":          "{baseSeconds: 1, maxSeconds: 5}",
		"ManagedWorkload.updateStrategy":          "{type: RollingUpdate}",
		"ManagedWorkload.paused":                  "true",
		"ManagedWorkload.minReadySeconds":         "3",
		"ManagedWorkload.progressDeadlineSeconds": "3",
		"ManagedWorkload.revisionHistoryLimit":    "0",
		"NodeWorkload.nodeName":                   "n1",
		"NodeWorkload.deletionGracePeriodSeconds": "3",
		"NodeWorkload.restartBackoff":             "{baseSeconds: 1, maxSeconds: 5}",
		"NodeWorkload.requests":                   "[{id: a}]",
	}
	accepted := map[string]bool{
		"ManagedWorkload.template": true, "ManagedWorkload.restartBackoff": true, "NodeWorkload.template": true, "NodeWorkload.nodeName": true,
		"NodeWorkload.deletionGracePeriodSeconds": true, "NodeWorkload.restartBackoff": true,
	}
	for kind, spec := range map[string]reflect.Type{
		"ManagedWorkload": reflect.TypeFor[v1alpha1.ManagedWorkloadSpec](), "NodeWorkload": reflect.TypeFor[v1alpha1.NodeWorkloadSpec](),
	} {
		for f := range spec.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			t.Run(kind+"."+name, func(t *testing.T) {
				value, known := values[kind+"."+name]
				if !known {
					t.Fatal("this test has no value of it")
				}
				if value != "" {
					value = name + ": " + value
				}
				_, err := Reader{Node: "n1", Static: true}.Read(strings.NewReader(inSpec(kind, value)))
				want := fmt.Sprintf("line 6: spec.%s: Forbidden: only the manager honours it", name)
				switch {
				case accepted[kind+"."+name]:
					if err != nil {
						t.Errorf("refused: %v", err)
					}
				case err == nil || !strings.HasPrefix(err.Error(), want):
					t.Errorf("error %v, want %q", err, want)
				}
				if _, err := (Reader{Node: "n1"}).Read(strings.NewReader(inSpec(kind, value))); err != nil {
					t.Errorf("a manager would honour it, but: %v", err)
				}
			})
		}
	}
}

// A ManagedWorkload in a file has the back-off that the manager would give to its NodeWorkloads.
func TestTheBackoffOfAManagedWorkloadIsKept(t *testing.T) {
	nw, err := Reader{Node: "n1"}.Read(strings.NewReader(inSpec("ManagedWorkload", "restartBackoff: {baseSeconds: 1, maxSeconds: 5}")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&v1alpha1.RestartBackoff{BaseSeconds: new(int32(1)), MaxSeconds: new(int32(5))}, nw.Spec.RestartBackoff); diff != "" {
		t.Errorf("back-off (-want +got):\n%s", diff)
	}
}

// The annotation for the grace period of a deletion counts in a file as on an object of the API server. One that
// cannot be read is refused in a file: no condition would name it.
func TestTheDeletionGraceOfAManagedWorkload(t *testing.T) {
	const annotation = v1alpha1.AnnotationDeletionGracePeriodSeconds
	with := func(value string) string {
		return strings.Replace(inSpec("ManagedWorkload", "paused: false"), "metadata: {", fmt.Sprintf("metadata: {annotations: {%s: %q}, ", annotation, value), 1)
	}
	nw, err := Reader{Node: "n1", Static: true}.Read(strings.NewReader(with("7")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(new(int64(7)), nw.Spec.DeletionGracePeriodSeconds); diff != "" {
		t.Errorf("grace period (-want +got):\n%s", diff)
	}
	for _, value := range []string{"-1", "5s", "", "99999999999999999999"} {
		_, err := Reader{Node: "n1", Static: true}.Read(strings.NewReader(with(value)))
		if want := fmt.Sprintf("metadata.annotations[%s]: Invalid value: %q", annotation, value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", value, err, want)
		}
		nw, err := Reader{Node: "n1"}.Read(strings.NewReader(with(value)))
		if err != nil || nw.Spec.DeletionGracePeriodSeconds != nil {
			t.Errorf("%q with a manager, which uses the template's: error %v", value, err)
		}
	}
}

func TestTimesThatTheAPIServerRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"restartBackoff: {baseSeconds: 0}":                 "spec.restartBackoff.baseSeconds: Invalid value: 0",
		"restartBackoff: {maxSeconds: 301}":                "spec.restartBackoff.maxSeconds: Invalid value: 301",
		"restartBackoff: {baseSeconds: 9, maxSeconds: 8}":  "spec.restartBackoff.baseSeconds: Invalid value: 9: baseSeconds may not exceed maxSeconds",
		"restartBackoff: {baseSeconds: -1, maxSeconds: 0}": "spec.restartBackoff.maxSeconds: Invalid value: 0",
		"deletionGracePeriodSeconds: -1":                   "spec.deletionGracePeriodSeconds: Invalid value: -1",
	} {
		t.Run(spec, func(t *testing.T) {
			_, err := Reader{Node: "n1"}.Read(strings.NewReader(inSpec("NodeWorkload", spec)))
			if err == nil || !strings.Contains(err.Error(), "line 6: "+want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}
