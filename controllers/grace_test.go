// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestDeletionGrace(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        *int64
		wantProblem bool
	}{
		"none":        {},
		"seconds":     {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "7"}, want: ptr.To[int64](7)},
		"zero":        {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "0"}, want: ptr.To[int64](0)},
		"negative":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "-1"}, wantProblem: true},
		"a duration":  {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}, wantProblem: true},
		"empty":       {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: ""}, wantProblem: true},
		"enormous":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "99999999999999999999"}, wantProblem: true},
		"another one": {annotations: map[string]string{"example.com/grace": "7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, problem := deletionGrace(tc.annotations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("seconds (-want +got):\n%s", diff)
			}
			if (problem != "") != tc.wantProblem {
				t.Errorf("problem = %q, want one: %v", problem, tc.wantProblem)
			}
			if tc.wantProblem && !strings.Contains(problem, v1alpha1.AnnotationDeletionGracePeriodSeconds) {
				t.Errorf("problem %q does not name the annotation", problem)
			}
		})
	}
}

func TestShrunkGrace(t *testing.T) {
	tests := map[string]struct {
		template, current, wanted *int64
		want                      *int64
	}{
		"nothing wanted":                 {template: ptr.To[int64](30)},
		"nothing wanted, set before":     {template: ptr.To[int64](30), current: ptr.To[int64](4), want: ptr.To[int64](4)},
		"shorter than the template's":    {template: ptr.To[int64](30), wanted: ptr.To[int64](5), want: ptr.To[int64](5)},
		"zero":                           {template: ptr.To[int64](30), wanted: ptr.To[int64](0), want: ptr.To[int64](0)},
		"longer than the template's":     {template: ptr.To[int64](30), wanted: ptr.To[int64](60), want: ptr.To[int64](30)},
		"longer than it is":              {template: ptr.To[int64](30), current: ptr.To[int64](4), wanted: ptr.To[int64](10), want: ptr.To[int64](4)},
		"shorter than it is":             {template: ptr.To[int64](30), current: ptr.To[int64](10), wanted: ptr.To[int64](4), want: ptr.To[int64](4)},
		"a template without any default": {wanted: ptr.To[int64](4), want: ptr.To[int64](4)},
		"longer than the default":        {wanted: ptr.To[int64](60), want: ptr.To[int64](30)},
		"a template that makes no sense": {template: ptr.To[int64](-5), wanted: ptr.To[int64](4), want: ptr.To[int64](0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.NodeWorkloadSpec{
				Template:                   corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: tc.template}},
				DeletionGracePeriodSeconds: tc.current,
			}
			if diff := cmp.Diff(tc.want, shrunkGrace(spec, tc.wanted)); diff != "" {
				t.Errorf("grace (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	for s, want := range map[string]string{"short": "short", "12345678": "12345678", "123456789": "12345...", "1234äö7": "1234äö7"[:4] + "..."} {
		if got := limit(s, 8); got != want || !utf8.ValidString(got) {
			t.Errorf("limit(%q) = %q, want %q", s, got, want)
		}
	}
}
