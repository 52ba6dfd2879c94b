// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func workload(name string) *v1alpha1.NodeWorkload {
	c := corev1.Container{
		Name: "c", Image: "i", Args: []string{"--password=x"}, Env: []corev1.EnvVar{{Name: "KEY", Value: "secret"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "static-1"},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "n", Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}},
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
	want := []corev1.Container{{Name: "c", Image: "i", Resources: workload("web").Spec.Template.Spec.Containers[0].Resources}}
	if diff := cmp.Diff(want, nw.Spec.Template.Spec.Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// An annotation has little place: what does not fit waits.
func TestAReportIsBounded(t *testing.T) {
	var r Report
	for i := range 3 * maxMirrors {
		nw := workload(fmt.Sprintf("web-%d", i))
		nw.Spec.Template.Spec.Containers[0].Image = strings.Repeat("i", 2000)
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

func TestAReportThatIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        "x",
		"too long":       strings.Repeat(" ", maxReport+1),
		"too many":       "{\"delete\":[" + strings.TrimSuffix(strings.Repeat("{},", maxMirrors+1), ",") + "]}",
		"no name":        "{\"create\":[{\"namespace\":\"ns\",\"name\":\"../x\"}]}",
		"no namespace":   "{\"create\":[{\"namespace\":\"\",\"name\":\"x\"}]}",
		"a UID too long": "{\"create\":[{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"" + strings.Repeat("u", 64) + "\"}]}",
	} {
		if _, err := Decode(text); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}
