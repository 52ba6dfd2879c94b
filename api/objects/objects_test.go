// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func name(s string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: s} }

func spec() *corev1.PodSpec {
	return &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{name("pull"), {}},
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("all")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("env")}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "A", Value: "x"},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("key")}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("key")}}},
		}}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("files")}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("files")}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: name("part")}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "again"}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: new(int64(600))}},
			}}}},
		},
	}
}

func TestAllReferencesAreFoundOnce(t *testing.T) {
	want := []Ref{
		{ConfigMap, "all"}, {ConfigMap, "files"}, {ConfigMap, "key"},
		{Secret, "env"}, {Secret, "key"}, {Secret, "part"}, {Secret, "pull"}, {Secret, "tls"},
	}
	if diff := cmp.Diff(want, Of(spec())); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestAllTokensAreFoundOnce(t *testing.T) {
	if diff := cmp.Diff([]Token{{"", 3600}, {"vault", 600}}, Tokens(spec())); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// What any container or volume needs is required, although another one takes it or leaves it.
func TestRequired(t *testing.T) {
	optional := new(true)
	spec := &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{name("pull")},
		Containers: []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("from"), Optional: optional}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("from"), Optional: optional}},
			},
			Env: []corev1.EnvVar{
				{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("key"), Optional: optional}}},
				{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("both"), Optional: optional}}},
			},
		}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("files"), Optional: optional}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "both", Optional: new(false)}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("part"), Optional: optional}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name(RootCA)}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: name("part"), Optional: optional}},
			}}}},
		},
	}
	if diff := cmp.Diff([]Ref{{ConfigMap, RootCA}, {Secret, "both"}}, Required(spec)); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
}
