// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// objects draws what a template shows of ConfigMaps, Secrets, tokens and fields of the pod, how,
// and to whom.
func (g generator) objects() scenario {
	var sources []source
	for range g.between(1, 4) {
		sources = append(sources, g.source())
	}
	s := seen("objects", "Objects", edited(observing(sources...), func(s *corev1.PodSpec) {
		s.SecurityContext = g.users()
		s.AutomountServiceAccountToken = one(g, nil, nil, nil, ptr.To(false))
		if g.chance(30) {
			s.ServiceAccountName = reader
		}
		c := &s.Containers[0]
		c.Env, c.EnvFrom = g.variables(), g.variablesFrom()
		if g.chance(40) {
			second := observes("c2", s.Volumes[:g.between(1, len(s.Volumes))])
			second.VolumeMounts = append(second.VolumeMounts, corev1.VolumeMount{Name: "j", MountPath: journals})
			second.SecurityContext = one(g, nil, &corev1.SecurityContext{RunAsUser: ptr.To(one(g, int64(0), 1000, 1001))})
			s.Containers = append(s.Containers, second)
		}
	}))
	return g.finished(s)
}

// users are those of a pod: none said, one user, groups.
func (g generator) users() *corev1.PodSecurityContext {
	if g.chance(30) {
		return nil
	}
	users := &corev1.PodSecurityContext{
		RunAsUser: one(g, nil, ptr.To[int64](0), ptr.To[int64](1000)),
		FSGroup:   one(g, nil, ptr.To[int64](0), ptr.To[int64](2000)), SupplementalGroups: one(g, nil, []int64{4000}),
	}
	if users.RunAsUser != nil { // no runtime makes a sandbox with a group alone
		users.RunAsGroup = one(g, nil, ptr.To[int64](3000))
	}
	return users
}

// mode is one that a template says, or nothing.
func (g generator) mode() *int32 {
	return one(g, nil, nil, ptr.To(one(g, int32(0o400), 0o440, 0o444, 0o600, 0o640, 0o755, 0o777, 0o040, 0)))
}

func (g generator) items(keys []string) []corev1.KeyToPath {
	if g.chance(40) {
		return nil
	}
	var items []corev1.KeyToPath
	for i, key := range keys {
		if g.chance(60) {
			items = append(items, item(key, one(g, "", "d/", "d/e/", ".d/")+key+string(rune('a'+i)), g.mode()))
		}
	}
	return items
}

func (g generator) settingsItems() []corev1.KeyToPath {
	return g.items(append(slices.Sorted(maps.Keys(settingsData)), "binary"))
}

func (g generator) credentialsItems() []corev1.KeyToPath {
	return g.items(slices.Sorted(maps.Keys(credentialsData)))
}

func (g generator) fields() []corev1.DownwardAPIVolumeFile {
	var files []corev1.DownwardAPIVolumeFile
	for _, field := range []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.labels['app']", "metadata.annotations['build']"} {
		if g.chance(50) {
			files = append(files, fieldFile(one(g, "", "pod/")+strings.Trim(strings.Map(wordOnly, field), "-"), field, g.mode()))
		}
	}
	return append(files, resourceFile("cpu", "c", one(g, "limits.cpu", "requests.cpu"), one(g, "1", "1m")))
}

func wordOnly(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// source is a volume: its files lie in folders of their own where it has several sources.
func (g generator) source() source {
	switch g.IntN(5) {
	case 0:
		return configMap(settings, g.mode(), g.settingsItems()...)
	case 1:
		return secret(credentials, g.mode(), g.credentialsItems()...)
	case 2:
		return source{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: g.mode(), Items: g.fields()}}
	case 3:
		return optional(one(g, configMap, secret)(missing, g.mode()))
	}
	var parts []corev1.VolumeProjection
	for _, part := range []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(settings), Items: g.settingsItems()}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: named(credentials), Items: g.credentialsItems()}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: g.fields()}},
		tokenFor(one(g, "", "vault"), one(g, int64(600), 1800, 3600, 3607, 86400), "token/of"),
	} {
		if g.chance(60) {
			parts = append(parts, part)
		}
	}
	return projected(g.mode(), parts...)
}

func (g generator) variables() []corev1.EnvVar {
	var list []corev1.EnvVar
	for _, v := range []corev1.EnvVar{
		configVariable("C", settings, "plain", false), secretVariable("S", credentials, "password", false), configVariable("N", settings, "none", true),
		secretVariable("UPPER_1", credentials, "user", true), {Name: "REFERS", Value: "$(S) $(C) $(UPPER_1) $(P.user)"},
		fieldVariable("NAME", "metadata.name"), fieldVariable("LABEL", "metadata.labels['app']"), fieldVariable("ACCOUNT", "spec.serviceAccountName"),
		resourceVariable("CPU", "limits.cpu", "1"),
	} {
		if g.chance(50) {
			list = append(list, v)
		}
	}
	return list
}

func (g generator) variablesFrom() []corev1.EnvFromSource {
	if g.chance(50) {
		return nil
	}
	return variablesOf(settings, one(g, credentials, missing), one(g, "", "P.", "P_"), true)
}
