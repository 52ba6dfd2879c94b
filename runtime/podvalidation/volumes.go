// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podvalidation

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// volumes returns the names of the volumes that can be mounted.
func (p *problems) volumes(volumes []corev1.Volume, path *field.Path) map[string]bool {
	seen := map[string]bool{}
	for i := range volumes {
		v, at := &volumes[i], path.Index(i)
		p.name(at.Child("name"), v.Name, validation.IsDNS1123Label)
		p.unique(at.Child("name"), v.Name, seen)
		p.oneSource(&v.VolumeSource, at)
		p.volumeSource(&v.VolumeSource, at)
	}
	return seen
}

// oneSource checks that a volume is of one kind.
func (p *problems) oneSource(source *corev1.VolumeSource, path *field.Path) {
	value, first := reflect.ValueOf(source).Elem(), true
	for i := range value.NumField() {
		if value.Field(i).IsNil() {
			continue
		}
		if !first {
			p.forbidden(path.Child(jsonName(value.Type().Field(i))), "may not specify more than 1 volume type")
		}
		first = false
	}
}

func (p *problems) volumeSource(source *corev1.VolumeSource, path *field.Path) {
	if s, at := source.HostPath, path.Child("hostPath"); s != nil {
		if p.required(at.Child("path"), s.Path) {
			p.withoutBacksteps(at.Child("path"), s.Path)
		}
		optionalOneOf(p, at.Child("type"), s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
	if s := source.EmptyDir; s != nil && s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
		p.forbidden(path.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")
	}
	if s, at := source.Secret, path.Child("secret"); s != nil {
		p.required(at.Child("secretName"), s.SecretName)
		p.mode(at.Child("defaultMode"), s.DefaultMode)
		p.items(s.Items, at.Child("items"))
	}
	if s, at := source.ConfigMap, path.Child("configMap"); s != nil {
		p.required(at.Child("name"), s.Name)
		p.mode(at.Child("defaultMode"), s.DefaultMode)
		p.items(s.Items, at.Child("items"))
	}
	if s, at := source.DownwardAPI, path.Child("downwardAPI"); s != nil {
		p.mode(at.Child("defaultMode"), s.DefaultMode)
		p.downwardFiles(s.Items, at.Child("items"))
	}
	if s, at := source.Image, path.Child("image"); s != nil {
		p.required(at.Child("reference"), s.Reference)
		oneOf(p, at.Child("pullPolicy"), s.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
	if source.Projected != nil {
		p.projected(source.Projected, path.Child("projected"))
	}
}

// items checks which keys of an object become which files.
func (p *problems) items(items []corev1.KeyToPath, path *field.Path) {
	for i, item := range items {
		at := path.Index(i)
		p.required(at.Child("key"), item.Key)
		if p.required(at.Child("path"), item.Path) {
			p.file(at.Child("path"), item.Path)
		}
		p.mode(at.Child("mode"), item.Mode)
	}
}

func (p *problems) downwardFiles(files []corev1.DownwardAPIVolumeFile, path *field.Path) {
	for i := range files {
		f, at := &files[i], path.Index(i)
		if p.required(at.Child("path"), f.Path) {
			p.file(at.Child("path"), f.Path)
		}
		p.mode(at.Child("mode"), f.Mode)
		switch {
		case f.FieldRef != nil && f.ResourceFieldRef != nil:
			p.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		case f.FieldRef == nil && f.ResourceFieldRef == nil:
			p.add(field.Required(at, "one of fieldRef and resourceFieldRef is required"))
		}
		if f.FieldRef != nil {
			p.fieldRef(f.FieldRef, at.Child("fieldRef"), fileFields)
		}
		if ref := f.ResourceFieldRef; ref != nil && p.required(at.Child("resourceFieldRef", "containerName"), ref.ContainerName) {
			p.resourceFieldRef(ref, at.Child("resourceFieldRef"))
		}
	}
}

// Bounds of the time for which a service account token is good, in seconds.
const (
	minTokenSeconds = 10 * 60
	maxTokenSeconds = 1 << 32
)

func (p *problems) projected(projected *corev1.ProjectedVolumeSource, path *field.Path) {
	p.mode(path.Child("defaultMode"), projected.DefaultMode)
	seen := map[string]bool{}
	unique := func(at *field.Path, file string) {
		if file != "" && seen[file] {
			p.invalid(at, file, "conflicting duplicate paths")
		}
		seen[file] = true
	}
	for i := range projected.Sources {
		source, at := &projected.Sources[i], path.Child("sources").Index(i)
		if s, at := source.Secret, at.Child("secret"); s != nil {
			p.required(at.Child("name"), s.Name)
			p.items(s.Items, at.Child("items"))
			for j, item := range s.Items {
				unique(at.Child("items").Index(j).Child("path"), item.Path)
			}
		}
		if s, at := source.ConfigMap, at.Child("configMap"); s != nil {
			p.required(at.Child("name"), s.Name)
			p.items(s.Items, at.Child("items"))
			for j, item := range s.Items {
				unique(at.Child("items").Index(j).Child("path"), item.Path)
			}
		}
		if s, at := source.DownwardAPI, at.Child("downwardAPI"); s != nil {
			p.downwardFiles(s.Items, at.Child("items"))
			for j := range s.Items {
				unique(at.Child("items").Index(j).Child("path"), s.Items[j].Path)
			}
		}
		if source.ServiceAccountToken != nil {
			p.token(source.ServiceAccountToken, at.Child("serviceAccountToken"))
		}
		p.oneProjection(source, at)
	}
}

func (p *problems) token(token *corev1.ServiceAccountTokenProjection, path *field.Path) {
	if s := ptr.Deref(token.ExpirationSeconds, minTokenSeconds); s < minTokenSeconds {
		p.invalid(path.Child("expirationSeconds"), s, "may not specify a duration less than 10 minutes")
	} else if s > maxTokenSeconds {
		p.invalid(path.Child("expirationSeconds"), s, "may not specify a duration larger than 2^32 seconds")
	}
	if p.required(path.Child("path"), token.Path) {
		p.file(path.Child("path"), token.Path)
	}
}

// oneProjection checks that a source of a projected volume is of one kind.
func (p *problems) oneProjection(source *corev1.VolumeProjection, path *field.Path) {
	value, kinds := reflect.ValueOf(source).Elem(), 0
	for _, kind := range value.Fields() {
		if !kind.IsNil() {
			kinds++
		}
	}
	if kinds > 1 {
		p.forbidden(path, "may not specify more than 1 volume type per source")
	}
}
