// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every place that needs an object is named by its path, and nothing else is.
func TestPaths(t *testing.T) {
	from := []corev1.EnvVar{
		{Name: "A", Value: "a"},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}},
		{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}},
	}
	spec := &corev1.PodSpec{
		AutomountServiceAccountToken: new(true),
		ImagePullSecrets:             []corev1.LocalObjectReference{{Name: "pull"}},
		InitContainers:               []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}, {SecretRef: &corev1.SecretEnvSource{}}}}},
		Containers:                   []corev1.Container{{Env: from}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{DownwardAPI: &corev1.DownwardAPIProjection{}}, {ConfigMap: &corev1.ConfigMapProjection{}},
				{Secret: &corev1.SecretProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
			}}}},
		},
	}
	var got []string
	for _, path := range Paths(spec, field.NewPath("spec")) {
		got = append(got, path.String())
	}
	want := []string{
		"spec.automountServiceAccountToken", "spec.imagePullSecrets",
		"spec.volumes[1].configMap", "spec.volumes[2].secret",
		"spec.volumes[3].projected.sources[1].configMap", "spec.volumes[3].projected.sources[2].secret", "spec.volumes[3].projected.sources[3].serviceAccountToken",
		"spec.initContainers[0].envFrom[0].configMapRef", "spec.initContainers[0].envFrom[1].secretRef",
		"spec.containers[0].env[2].valueFrom.configMapKeyRef", "spec.containers[0].env[3].valueFrom.secretKeyRef",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if found := Paths(&corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Env: from[:2]}}}, nil); len(found) > 0 {
		t.Errorf("found %v where nothing is needed", found)
	}
}
