// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What a source showed stays where its files cannot be had, with the modes of the template, and
// nothing of it stays where they can.
func TestRenew(t *testing.T) {
	ofConfigMap := func(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(name), Items: items}}
	}
	ofSecret := func(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(name), Items: items}}
	}
	ofToken := func(audience string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: audience}}
	}
	private := int32(0o400)
	kept := func(data string) File { return File{Data: []byte(data), Mode: 0o644} }
	tests := map[string]struct {
		sources []corev1.VolumeProjection
		shown   map[string][]byte
		want    map[string]File
	}{
		"missing key": {
			[]corev1.VolumeProjection{ofToken("vault"), ofConfigMap("conf", corev1.KeyToPath{Key: "k", Path: "k"}, corev1.KeyToPath{Key: "gone", Path: "d/gone", Mode: &private})},
			map[string][]byte{"token": []byte("old"), "k": []byte("old"), "d/gone": []byte("old"), "stray": nil},
			map[string]File{"token": kept("vault-jwt"), "k": kept("old"), "d/gone": {Data: []byte("old"), Mode: private}},
		},
		"deleted object whose keys are files": {
			[]corev1.VolumeProjection{ofConfigMap("none"), ofToken("vault")},
			map[string][]byte{"token": []byte("old"), "a": []byte("old"), "b": []byte("old")},
			map[string]File{"token": kept("vault-jwt"), "a": kept("old"), "b": kept("old")},
		},
		"no token": {
			[]corev1.VolumeProjection{ofToken("away"), ofSecret("tls", corev1.KeyToPath{Key: "k", Path: "k"})},
			map[string][]byte{"token": []byte("old"), "k": []byte("old")},
			map[string]File{"token": kept("old"), "k": kept("key")},
		},
		"two that fail": {
			[]corev1.VolumeProjection{ofSecret("away", corev1.KeyToPath{Key: "k", Path: "k"}), ofConfigMap("away"), ofToken("vault")},
			map[string][]byte{"k": []byte("old"), "a": []byte("old")},
			map[string]File{"token": kept("vault-jwt"), "k": kept("old"), "a": kept("old")},
		},
		"path of two sources": {
			[]corev1.VolumeProjection{ofSecret("away", corev1.KeyToPath{Key: "k", Path: "k"}), ofConfigMap("conf", corev1.KeyToPath{Key: "k", Path: "k"})},
			map[string][]byte{"k": []byte("old")},
			map[string]File{"k": kept("text")},
		},
		"an object before one that may have shown the same path": {
			[]corev1.VolumeProjection{ofToken("vault"), ofConfigMap("conf"), ofConfigMap("none")},
			map[string][]byte{"token": []byte("old"), "k": []byte("that of none")},
			map[string]File{"token": kept("vault-jwt"), "k": kept("that of none"), "both": kept("text"), "bin": kept("\x00\x01")},
		},
		"an object before one that has not shown its path": {
			[]corev1.VolumeProjection{ofConfigMap("conf"), ofConfigMap("none")},
			map[string][]byte{"a": []byte("old")},
			map[string]File{"k": kept("text"), "both": kept("text"), "bin": kept("\x00\x01"), "a": kept("old")},
		},
		"an object behind one that fails": {
			[]corev1.VolumeProjection{ofConfigMap("none"), ofConfigMap("conf")},
			map[string][]byte{"k": []byte("old")},
			map[string]File{"k": kept("text"), "both": kept("text"), "bin": kept("\x00\x01")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Renew(testPod(), &corev1.ProjectedVolumeSource{Sources: tt.sources}, testFacts(), tt.shown)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
