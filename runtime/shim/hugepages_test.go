// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A workload whose huge pages the node does not have is refused there by the path of its
// limit.
func TestHugePagesExceeded(t *testing.T) {
	dir := t.TempDir()
	for size, count := range map[string]string{"2048kB": "3\n", "1048576kB": "0\n"} {
		at := filepath.Join(dir, "hugepages-"+size)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "nr_hugepages"), []byte(count), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with := func(limits map[corev1.ResourceName]string) *corev1.Pod {
		list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		for name, value := range limits {
			list[name] = resource.MustParse(value)
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Limits: list}}}}}
	}
	const at = "spec.containers[1].resources.limits"
	tests := map[string]struct {
		limits map[corev1.ResourceName]string
		want   []string
	}{
		"none":    {},
		"fits":    {limits: map[corev1.ResourceName]string{"hugepages-2Mi": "6Mi"}},
		"no pool": {limits: map[corev1.ResourceName]string{"hugepages-1Gi": "1Gi"}, want: []string{at + `[hugepages-1Gi]: Invalid value: "1Gi": this node has 0 of huge pages of 1Gi`}},
		"too many, and an unknown size": {
			limits: map[corev1.ResourceName]string{"hugepages-2Mi": "8Mi", "hugepages-64Ki": "64Ki"},
			want: []string{
				at + `[hugepages-2Mi]: Invalid value: "8Mi": this node has 6Mi of huge pages of 2Mi`,
				at + `[hugepages-64Ki]: Invalid value: "64Ki": this node has 0 of huge pages of 64Ki`,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range hugePagesExceeded(with(tt.limits), field.NewPath("spec"), dir) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
