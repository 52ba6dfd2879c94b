// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// referring is a template with so many references to different Secrets and so many tokens.
func referring(secrets, tokens int) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{}
	for i := range secrets {
		t.Spec.ImagePullSecrets = append(t.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("s", i)})
	}
	projected := &corev1.ProjectedVolumeSource{}
	for i := range tokens {
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: fmt.Sprint(i), Audience: fmt.Sprint(i)},
		})
	}
	t.Spec.Volumes = []corev1.Volume{{Name: "tokens", VolumeSource: corev1.VolumeSource{Projected: projected}}}
	return t
}

func TestTooManyReferencesAreRefused(t *testing.T) {
	tests := map[string]struct {
		template *corev1.PodTemplateSpec
		want     string
	}{
		"as many as may be": {referring(500, 50), ""},
		"objects":           {referring(501, 1), "spec.template.spec: Forbidden: a template may refer to at most 500 ConfigMaps and Secrets; this one refers to 501"},
		"tokens":            {referring(1, 51), "spec.template.spec.volumes: Forbidden: a template may ask for at most 50 service account tokens; this one asks for 51"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			refused, _ := Check(tc.template, field.NewPath("spec", "template"))
			var got []string
			for _, err := range refused {
				if strings.Contains(err.Error(), "at most") {
					got = append(got, err.Error())
				}
			}
			if strings.Join(got, "\n") != tc.want {
				t.Errorf("refused %q, want %q", got, tc.want)
			}
		})
	}
}
