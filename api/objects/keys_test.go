// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What a variable or a volume names is required unless that reference is optional.
func TestRequiredKeys(t *testing.T) {
	optional := new(true)
	items := func(keys ...string) (items []corev1.KeyToPath) {
		for _, key := range keys {
			items = append(items, corev1.KeyToPath{Key: key, Path: "file"})
		}
		return items
	}
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("conf"), Key: "a"}}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "A", Value: "x"},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("tls"), Key: "key"}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("tls"), Key: "may", Optional: optional}}},
		}}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("conf"), Items: items("a", "b")}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("all")}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "may", Items: items("x"), Optional: optional}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls", Items: items("crt")}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("part"), Items: items("p")}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: name("part"), Items: items("s")}},
			}}}},
		},
	}
	want := []KeyRef{
		{Ref{ConfigMap, "conf"}, "a"}, {Ref{ConfigMap, "conf"}, "b"}, {Ref{ConfigMap, "part"}, "p"},
		{Ref{Secret, "part"}, "s"}, {Ref{Secret, "tls"}, "crt"}, {Ref{Secret, "tls"}, "key"},
	}
	if diff := cmp.Diff(want, RequiredKeys(spec)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
