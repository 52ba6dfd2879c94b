// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/managedworkload/managedworkload/api/template"
)

// admitAccount does to a Pod what the admission of service accounts does. off is what the
// account says of a Pod that is silent about its token.
func admitAccount(pod *corev1.Pod, off bool) {
	spec := &pod.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName, spec.DeprecatedServiceAccount = "default", "default"
	}
	if len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-account"}}
	}
	if automount := spec.AutomountServiceAccountToken; (automount != nil && !*automount) || (automount == nil && off) {
		return
	}
	mount := corev1.VolumeMount{Name: "kube-api-access-" + utilrand.String(5), MountPath: mountPath, ReadOnly: true}
	at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "kube-api-access-") })
	if at >= 0 {
		mount.Name = spec.Volumes[at].Name
	}
	needed := false
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if len(c.VolumeMounts) == 0 || c.VolumeMounts[0].MountPath != mountPath {
			c.VolumeMounts = append(c.VolumeMounts, mount)
			needed = true
		}
	}
	if needed && at < 0 {
		spec.Volumes = append(spec.Volumes, token(mount.Name))
	}
}

func token(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Path: "token", ExpirationSeconds: new(int64(3607)),
		}}},
	}}}
}

// A template gets what its ServiceAccount gives a Pod, under names that stay the same.
func TestServiceAccount(t *testing.T) {
	account := func(automount bool) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount = "default", "default"
			t.Spec.AutomountServiceAccountToken = &automount
			t.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-account"}}
		}
	}
	volume := func(name string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = append(t.Spec.Volumes, token(name))
			t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: name, MountPath: mountPath, ReadOnly: true}}
		}
	}
	unmounted := func(name string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Spec.Volumes = append(t.Spec.Volumes, token(name)) }
	}
	mine := func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: TokenVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	type edits = []func(*corev1.PodTemplateSpec)
	tests := map[string]struct {
		question Question
		off      bool // the account's automountServiceAccountToken is false
		user     edits
		added    edits
	}{
		"silent":                     {added: edits{account(true), volume(TokenVolume)}},
		"no token":                   {user: edits{func(t *corev1.PodTemplateSpec) { t.Spec.AutomountServiceAccountToken = new(false) }}, added: edits{account(false)}},
		"a volume of the name":       {user: edits{mine}, added: edits{account(true), volume(freeTokenVolume)}},
		"a token of the user's":      {user: edits{volume("kube-api-access-mine")}, added: edits{account(true)}},
		"no component, silent":       {question: Question{NoTokens: true}, added: edits{account(false), func(t *corev1.PodTemplateSpec) { t.Spec.ImagePullSecrets = nil }}},
		"an account that gives none": {off: true, added: edits{account(false)}},
		"an account that gives none, a token of the user's":   {off: true, user: edits{unmounted("mine")}, added: edits{account(false)}},
		"an account that gives none, a token of such a name":  {off: true, user: edits{unmounted("kube-api-access-mine")}, added: edits{account(false)}},
		"an account that gives none, one mounted as it would": {off: true, user: edits{volume("kube-api-access-mine")}, added: edits{account(true)}},
		"from an earlier answer":                              {user: edits{account(true), volume(TokenVolume)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			asked := userTemplate(tt.user...)
			want := userTemplate(append(tt.user, tt.added...)...)
			var hashes []string
			for range 2 {
				pod := tt.question.Pod(asked)
				admitAccount(pod, tt.off)
				got := tt.question.Template(pod, asked)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
				hashes = append(hashes, template.Hash(got))
			}
			if hashes[0] != hashes[1] {
				t.Error("each answer makes another template")
			}
			again := tt.question.Pod(want)
			admitAccount(again, tt.off)
			if diff := cmp.Diff(want, tt.question.Template(again, want)); diff != "" {
				t.Errorf("asked again (-admitted +got):\n%s", diff)
			}
		})
	}
}
