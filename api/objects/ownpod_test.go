// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// A container that knows its Pod's name or UID and has a token may look for its own Pod.
func TestOwnPod(t *testing.T) {
	variable := func(path string) corev1.EnvVar {
		return corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	file := []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	projected := func(sources ...corev1.VolumeProjection) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
	}
	tests := map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"name in a variable": {
			corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "A"}, variable("metadata.name")}}}},
			[]string{"spec.containers[0].env[1]"},
		},
		"UID in a variable of an init container": {
			corev1.PodSpec{InitContainers: []corev1.Container{{Env: []corev1.EnvVar{variable("metadata.uid")}}}},
			[]string{"spec.initContainers[0].env[0]"},
		},
		"name in files": {
			corev1.PodSpec{Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: file}}},
				projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: file}}),
			}},
			[]string{"spec.volumes[0].downwardAPI.items[0]", "spec.volumes[1].projected.sources[0].downwardAPI.items[0]"},
		},
		"another field": {corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{variable("spec.nodeName")}}}}, nil},
		"no token": {
			corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false),
				Containers:                   []corev1.Container{{Env: []corev1.EnvVar{variable("metadata.name")}}},
			}, nil,
		},
		"a token of its own": {
			corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false),
				Volumes:                      []corev1.Volume{projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}})},
				Containers:                   []corev1.Container{{Env: []corev1.EnvVar{variable("metadata.name")}}},
			},
			[]string{"spec.containers[0].env[0]"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, path := range OwnPod(&tt.spec, field.NewPath("spec")) {
				got = append(got, path.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}
