// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func workload(name string) *template.Workload {
	c := corev1.Container{
		Name: "c", Image: "i", Args: []string{"--password=x"}, Env: []corev1.EnvVar{{Name: "KEY", Value: "secret"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
	return &template.Workload{
		NodeWorkload: v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "static-1"},
			Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "n"},
		},
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
	}
}

// What a file says reaches the API only as far as it is no secret.
func TestAReportHasNamesImagesAndResourcesOnly(t *testing.T) {
	text, err := Report{Create: []Workload{Reported(workload("web"))}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "password") {
		t.Errorf("the report has %s", text)
	}
	read, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	nw := read.Create[0].Object("n")
	if !Is(nw) || Of(nw) != "static-1" || nw.Namespace != "ns" || nw.Name != Name("web", "n") || nw.Spec.NodeName != "n" {
		t.Errorf("mirror %+v", nw)
	}
	want := []corev1.Container{{Name: "c", Image: "i", Resources: workload("web").Template.Spec.Containers[0].Resources}}
	if diff := cmp.Diff(want, nw.Spec.Template.Spec.Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// What a node reports as its workload's name is the node's choice: it takes no name that a
// NodeWorkload of a ManagedWorkload needs.
func TestAMirrorTakesNoNameOfANodeWorkload(t *testing.T) {
	ofWorkload := regexp.MustCompile(`-[0-9a-f]{10}$`)
	name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		workload, node := name.Draw(t, "workload"), name.Draw(t, "node")
		got := Name(workload, node)
		if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
			t.Errorf("Name(%q, %q) = %q: %v", workload, node, got, errs)
		}
		if ofWorkload.MatchString(got) || !ofWorkload.MatchString(placement.NodeWorkloadName(workload, node)) {
			t.Errorf("%q could be the name of a ManagedWorkload's NodeWorkload, as %q", got, placement.NodeWorkloadName(workload, node))
		}
	})
	if Name("web", "n1") == Name("web", "n2") || Name("web", "n1") == Name("api", "n1") {
		t.Error("two workloads have one mirror")
	}
}

// An annotation has little place: what does not fit waits.
func TestAReportIsBounded(t *testing.T) {
	var r Report
	for i := range 3 * Max {
		nw := workload(fmt.Sprintf("web-%d", i))
		nw.Template.Spec.Containers[0].Image = strings.Repeat("i", 2000)
		r.Create = append(r.Create, Reported(nw))
	}
	text, err := r.Encode()
	if err != nil || len(text) > maxReport {
		t.Fatalf("%d bytes (%v)", len(text), err)
	}
	if read, err := Decode(text); err != nil || len(read.Create) == 0 {
		t.Errorf("read %d workloads (%v)", len(read.Create), err)
	}
	if text, err := (Report{}).Encode(); text != "" || err != nil {
		t.Errorf("nothing to ask for: %q (%v)", text, err)
	}
}

// A workload that is too large for a report is the only one without a mirror.
func TestALargeWorkloadKeepsNoOtherFromItsMirror(t *testing.T) {
	big := workload("big")
	for i := range 400 {
		big.Template.Spec.Containers = append(big.Template.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example.com/" + strings.Repeat("x", 150)})
	}
	for name, create := range map[string][]Workload{
		"first": {Reported(big), Reported(workload("a")), Reported(workload("b"))},
		"last":  {Reported(workload("a")), Reported(workload("b")), Reported(big)},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Report{Create: create, Delete: []Mirror{{Namespace: "ns", Name: "old", UID: "u"}}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			read, err := Decode(text)
			if err != nil {
				t.Fatalf("%d bytes: %v", len(text), err)
			}
			got := []string{}
			for _, w := range read.Create {
				got = append(got, w.Name)
			}
			if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || len(read.Delete) != 1 {
				t.Errorf("deletes %v; creates (-want +got):\n%s", read.Delete, diff)
			}
		})
	}
}

func TestAReportThatIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        "x",
		"too long":       strings.Repeat(" ", maxReport+1),
		"too many":       "{\"delete\":[" + strings.TrimSuffix(strings.Repeat("{},", Max+1), ",") + "]}",
		"no name":        "{\"create\":[{\"namespace\":\"ns\",\"name\":\"../x\"}]}",
		"no namespace":   "{\"create\":[{\"namespace\":\"\",\"name\":\"x\"}]}",
		"no mirror":      "{\"delete\":[{\"namespace\":\"ns\",\"name\":\"../x\"}]}",
		"a UID too long": "{\"create\":[{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"" + strings.Repeat("u", 64) + "\"}]}",
	} {
		if _, err := Decode(text); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}
