// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// KeyRef is a key of an object that a template refers to.
type KeyRef struct {
	Ref
	Name string
}

// RequiredKeys lists the keys without which containers do not start, each once and in order: the
// template names them, and no such reference is optional.
func RequiredKeys(spec *corev1.PodSpec) []KeyRef {
	var keys []KeyRef
	add := func(kind Kind, name, key string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			keys = append(keys, KeyRef{Ref{kind, name}, key})
		}
	}
	items := func(kind Kind, name string, items []corev1.KeyToPath, optional *bool) {
		for _, item := range items {
			add(kind, name, item.Key, optional)
		}
	}
	for i := range spec.Volumes {
		keysOfVolume(&spec.Volumes[i].VolumeSource, items)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, variable := range list[i].Env {
				if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
					add(ConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional)
				} else if from != nil && from.SecretKeyRef != nil {
					add(Secret, from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b KeyRef) int { return cmp.Or(Compare(a.Ref, b.Ref), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(keys)
}

func keysOfVolume(source *corev1.VolumeSource, add func(kind Kind, name string, items []corev1.KeyToPath, optional *bool)) {
	if c := source.ConfigMap; c != nil {
		add(ConfigMap, c.Name, c.Items, c.Optional)
	}
	if s := source.Secret; s != nil {
		add(Secret, s.SecretName, s.Items, s.Optional)
	}
	if source.Projected == nil {
		return
	}
	for _, part := range source.Projected.Sources {
		if c := part.ConfigMap; c != nil {
			add(ConfigMap, c.Name, c.Items, c.Optional)
		}
		if s := part.Secret; s != nil {
			add(Secret, s.Name, s.Items, s.Optional)
		}
	}
}
