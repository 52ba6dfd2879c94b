// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/objects"
)

// TokenVolume is the name of the volume with the token that every Pod gets. In a Pod a
// random suffix follows, which would make another template of each answer.
// (kubernetes plugin/pkg/admission/serviceaccount)
const TokenVolume = "kube-api-access"

// freeTokenVolume is the name where the template has a volume of the fixed one. No template
// with a volume of this name gets another one for its token.
const freeTokenVolume = TokenVolume + "-token"

// HasToken reports whether a volume of a spec has a service account token.
func HasToken(spec *corev1.PodSpec) bool { return len(objects.Tokens(spec)) > 0 }

// nameTokenVolume gives the volume that admission added for the token its fixed name, and
// reports whether there is one.
func nameTokenVolume(spec, asked *corev1.PodSpec) bool {
	named := func(name string) func(corev1.Volume) bool {
		return func(v corev1.Volume) bool { return v.Name == name }
	}
	at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool {
		return strings.HasPrefix(v.Name, TokenVolume+"-") && v.Projected != nil && !slices.ContainsFunc(asked.Volumes, named(v.Name))
	})
	if at < 0 {
		return false
	}
	from, to := spec.Volumes[at].Name, TokenVolume
	if slices.ContainsFunc(spec.Volumes, named(to)) {
		to = freeTokenVolume
	}
	spec.Volumes[at].Name = to
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for j := range containers[i].VolumeMounts {
				if mount := &containers[i].VolumeMounts[j]; mount.Name == from {
					mount.Name = to
				}
			}
		}
	}
	return true
}

// mountPath is where every Pod finds its token.
// (kubernetes plugin/pkg/admission/serviceaccount)
const mountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// bringsToken reports whether a template has the volume that admission would take for the
// token, mounted in each container where it would mount it: nothing is left to be added.
func bringsToken(spec *corev1.PodSpec) bool {
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, TokenVolume+"-") }) {
		return false
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mountPath }) {
			return false
		}
	}
	return true
}

// WithoutAccount reports whether an admitted template says nothing about what its
// ServiceAccount gives: no admission looked at service accounts. In a Pod the account has both
// of its names, whoever named it.
func WithoutAccount(admitted *corev1.PodSpec) bool {
	return admitted.ServiceAccountName == "" || admitted.DeprecatedServiceAccount == "" || admitted.AutomountServiceAccountToken == nil
}

// KeepAccount leaves what a ServiceAccount gives as it was in another form of a template.
func KeepAccount(t, before *corev1.PodTemplateSpec) {
	t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount = before.Spec.ServiceAccountName, before.Spec.DeprecatedServiceAccount
	t.Spec.AutomountServiceAccountToken = before.Spec.AutomountServiceAccountToken
	t.Spec.ImagePullSecrets = before.Spec.ImagePullSecrets
}
