// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (p *problems) env(vars []corev1.EnvVar, path *field.Path) {
	for i := range vars {
		v, at := &vars[i], path.Index(i)
		p.name(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName)
		if v.ValueFrom != nil {
			p.valueFrom(v, at.Child("valueFrom"))
		}
	}
}

func (p *problems) valueFrom(v *corev1.EnvVar, path *field.Path) {
	from, sources := v.ValueFrom, 0
	if from.FileKeyRef != nil { // it is not supported
		sources++
	}
	if ref := from.FieldRef; ref != nil {
		sources++
		p.fieldRef(ref, path.Child("fieldRef"), envFields)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		p.resourceFieldRef(ref, path.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		p.keyRef(ref.Name, ref.Key, path.Child("configMapKeyRef"))
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		p.keyRef(ref.Name, ref.Key, path.Child("secretKeyRef"))
	}
	switch {
	case sources == 0:
		p.invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		p.invalid(path, "", "may not be specified when `value` is not empty")
	case sources > 1:
		p.invalid(path, "", "may not have more than one field specified at a time")
	}
}

func (p *problems) keyRef(name, key string, path *field.Path) {
	p.invalid(path.Child("name"), name, validation.IsDNS1123Subdomain(name)...)
	p.name(path.Child("key"), key, validation.IsConfigMapKey)
}

func (p *problems) envFrom(sources []corev1.EnvFromSource, path *field.Path) {
	for i, source := range sources {
		at := path.Index(i)
		p.optionalName(at.Child("prefix"), source.Prefix, validation.IsRelaxedEnvVarName)
		if ref := source.ConfigMapRef; ref != nil {
			p.name(at.Child("configMapRef", "name"), ref.Name, validation.IsDNS1123Subdomain)
		}
		if ref := source.SecretRef; ref != nil {
			p.name(at.Child("secretRef", "name"), ref.Name, validation.IsDNS1123Subdomain)
		}
		switch {
		case source.ConfigMapRef == nil && source.SecretRef == nil:
			p.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
		case source.ConfigMapRef != nil && source.SecretRef != nil:
			p.invalid(at, "", "may not have more than one field specified at a time")
		}
	}
}

// Fields of a Pod that variables and files show.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "spec.host",
	}
	fileFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)

// fieldRef checks a reference to a field of the pod, or to one of its labels or annotations.
func (p *problems) fieldRef(ref *corev1.ObjectFieldSelector, path *field.Path, allowed []string) {
	at := path.Child("fieldPath")
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		p.invalid(path.Child("apiVersion"), ref.APIVersion, "must be v1")
		return
	}
	if !p.required(at, ref.FieldPath) {
		return
	}
	name, key, subscripted := subscript(ref.FieldPath)
	switch {
	case subscripted && name == "metadata.labels":
		p.invalid(at, ref.FieldPath, validation.IsQualifiedName(key)...)
	case subscripted && name == "metadata.annotations":
		p.invalid(at, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key))...)
	case subscripted:
		p.invalid(at, ref.FieldPath, "does not support subscript")
	case !slices.Contains(allowed, ref.FieldPath):
		p.add(field.NotSupported(at, ref.FieldPath, allowed))
	}
}

// subscript splits a path such as metadata.labels['key'].
func subscript(path string) (name, key string, ok bool) {
	inner, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, key, ok = strings.Cut(inner, "['")
	return name, key, ok && name != ""
}

// divisors are the units in which amounts of bytes are shown.
var divisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}

// resourceFieldRef checks a reference to an amount of a resource.
func (p *problems) resourceFieldRef(ref *corev1.ResourceFieldSelector, path *field.Path) {
	at := path.Child("resource")
	if !p.required(at, ref.Resource) {
		return
	}
	allowed := divisors
	switch _, resource, _ := strings.Cut(ref.Resource, "."); {
	case !strings.HasPrefix(ref.Resource, "limits.") && !strings.HasPrefix(ref.Resource, "requests."),
		resource != "cpu" && resource != "memory" && resource != "ephemeral-storage" && !strings.HasPrefix(resource, corev1.ResourceHugePagesPrefix):
		p.add(field.NotSupported(at, ref.Resource, []string{
			"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
		}))
		return
	case resource == "cpu":
		allowed = []string{"1m", "1"}
	}
	if divisor := ref.Divisor.String(); !ref.Divisor.IsZero() && !slices.Contains(allowed, divisor) {
		p.invalid(path.Child("divisor"), divisor, fmt.Sprintf("only the values %s are supported", strings.Join(allowed, ", ")))
	}
}
