// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// jsonName returns the name of a field as people write it.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (p *problems) mounts(pod pod, c *corev1.Container, path *field.Path) {
	seen := map[string]bool{}
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], path.Index(i)
		if p.required(at.Child("name"), m.Name) && !pod.volumes[m.Name] {
			p.add(field.NotFound(at.Child("name"), m.Name))
		}
		if p.required(at.Child("mountPath"), m.MountPath) && seen[m.MountPath] {
			p.invalid(at.Child("mountPath"), m.MountPath, "must be unique")
		}
		seen[m.MountPath] = true
		if m.SubPath != "" && m.SubPathExpr != "" {
			p.invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		p.below(at.Child("subPath"), m.SubPath)
		p.below(at.Child("subPathExpr"), m.SubPathExpr)
		p.propagation(c, m, at)
	}
}

func (p *problems) propagation(c *corev1.Container, m *corev1.VolumeMount, path *field.Path) {
	at := path.Child("mountPropagation")
	optionalOneOf(p, at, m.MountPropagation, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	privileged := c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	propagation := ptr.Deref(m.MountPropagation, corev1.MountPropagationNone)
	if propagation == corev1.MountPropagationBidirectional && !privileged {
		p.forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
	}
	at = path.Child("recursiveReadOnly")
	optionalOneOf(p, at, m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	if r := ptr.Deref(m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled); r != corev1.RecursiveReadOnlyEnabled && r != corev1.RecursiveReadOnlyIfPossible {
		return
	}
	if !m.ReadOnly {
		p.forbidden(at, "may only be specified when readOnly is true")
	}
	if propagation != corev1.MountPropagationNone {
		p.forbidden(at, "may only be specified when mountPropagation is None or not specified")
	}
}
