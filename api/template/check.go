// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
)

// Check walks every field that the template sets. It returns an error for each
// field that the shim cannot honour, all of them at once, and the paths of
// those that are accepted but have no meaning here. path is where the template
// stands in its object.
func Check(t *corev1.PodTemplateSpec, path *field.Path) (refused field.ErrorList, withoutMeaning []string) {
	c := checker{classes: classes()}
	c.walk(reflect.ValueOf(t), path, "")
	c.checkReferences(&t.Spec, path.Child("spec"))
	c.checkProbePorts(t.Spec.InitContainers, path.Child("spec", "initContainers"))
	c.checkProbePorts(t.Spec.Containers, path.Child("spec", "containers"))
	return c.refused, c.withoutMeaning
}

type checker struct {
	classes        map[string]Field
	refused        field.ErrorList
	withoutMeaning []string
}

// classes is the table by path; for ".*" entries the path is without it, because
// such an entry speaks of the field as a whole.
func classes() map[string]Field {
	m := make(map[string]Field, len(fields))
	for _, f := range fields {
		m[strings.TrimSuffix(strings.TrimSuffix(f.Path, ".*"), "[]")] = f
	}
	return m
}

// walk visits the set fields below v; key is the path as the table writes it.
func (c *checker) walk(v reflect.Value, path *field.Path, key string) {
	if f, ok := c.classes[key]; ok {
		c.apply(f, v, path)
		return
	}
	switch v = reflect.Indirect(v); {
	case v.Kind() == reflect.Struct && !isLeaf(v.Type()):
		for i := range v.NumField() {
			c.walkField(v.Type().Field(i), v.Field(i), path, key)
		}
	case v.Kind() == reflect.Slice && isStructs(v.Type()):
		for i := range v.Len() {
			c.walk(v.Index(i), path.Index(i), key+"[]")
		}
	default:
		c.refuse(path, "the field is not known to this version")
	}
}

func (c *checker) walkField(f reflect.StructField, v reflect.Value, path *field.Path, key string) {
	if v.IsZero() {
		return
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		c.walk(v, path, key)
		return
	}
	c.walk(v, path.Child(name), join(key, canonical(name)))
}

func (c *checker) apply(f Field, v reflect.Value, path *field.Path) {
	if rule, ok := valueRules[f.Path]; ok {
		rule(c, f, v, path)
		return
	}
	switch f.Class {
	case Honoured:
	case WithoutMeaning:
		c.withoutMeaning = append(c.withoutMeaning, path.String())
	case Refused:
		c.refuse(path, f.Refusal())
	}
}

func (c *checker) refuse(path *field.Path, why string) {
	c.refused = append(c.refused, field.Forbidden(path, why))
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// canonical is the name of a field in the table.
func canonical(name string) string {
	switch name {
	case "initContainers":
		return "containers"
	case "livenessProbe", "readinessProbe", "startupProbe":
		return "<probe>"
	case "postStart", "preStop":
		return "<hook>"
	}
	return name
}

// isLeaf reports whether a struct is a value and not a set of fields.
func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[intstr.IntOrString]():
		return true
	}
	return false
}

func isStructs(t reflect.Type) bool {
	return t.Elem().Kind() == reflect.Struct && !isLeaf(t.Elem())
}

// valueRules are the fields whose class depends on their value.
var valueRules = map[string]func(*checker, Field, reflect.Value, *field.Path){
	"spec.os.name": func(c *checker, _ Field, v reflect.Value, path *field.Path) {
		if v.String() != string(corev1.Linux) {
			c.refused = append(c.refused, field.NotSupported(path, v.String(), []string{string(corev1.Linux)}))
		}
	},
	"spec.containers[].lifecycle.stopSignal": checkStopSignal,
	"spec.securityContext.sysctls[].name": func(c *checker, _ Field, v reflect.Value, path *field.Path) {
		if namespace, _, _ := sysctl.GetNamespace(v.String()); namespace == sysctl.UnknownNamespace {
			c.refuse(path, "only sysctls that the kernel keeps for each pod are supported; set it on the node, or in a privileged init container for the node's own")
		}
	},
	"spec.volumes[].emptyDir.medium": func(c *checker, _ Field, v reflect.Value, path *field.Path) {
		m := corev1.StorageMedium(v.String())
		if m != corev1.StorageMediumMemory && m != corev1.StorageMediumHugePages && !strings.HasPrefix(string(m), string(corev1.StorageMediumHugePagesPrefix)) {
			c.refused = append(c.refused, field.NotSupported(path, string(m), []string{
				"", string(corev1.StorageMediumMemory), string(corev1.StorageMediumHugePages), string(corev1.StorageMediumHugePagesPrefix) + "2Mi",
			}))
		}
	},
	"spec.resources.limits":                checkResources(corev1.ResourceCPU, corev1.ResourceMemory),
	"spec.resources.requests":              checkResources(corev1.ResourceCPU, corev1.ResourceMemory),
	"spec.containers[].resources.limits":   checkResources(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, hugePages),
	"spec.containers[].resources.requests": checkResources(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, hugePages),
}

// checkStopSignal refuses signals that the API server does not have. It drops the field unread
// where its gate is off, and a runtime creates no container with an unknown signal.
func checkStopSignal(c *checker, _ Field, v reflect.Value, path *field.Path) {
	signal, all := corev1.Signal(reflect.Indirect(v).String()), StopSignals()
	if !slices.Contains(all, signal) {
		c.refused = append(c.refused, field.NotSupported(path, signal, all))
	}
}

// checkResources refuses resources that nothing would enforce or provide.
func checkResources(supported ...corev1.ResourceName) func(*checker, Field, reflect.Value, *field.Path) {
	return func(c *checker, _ Field, v reflect.Value, path *field.Path) {
		list, ok := reflect.TypeAssert[corev1.ResourceList](v)
		if !ok {
			return
		}
		var names []string
		for name := range list {
			if !slices.Contains(supported, name) && !(slices.Contains(supported, hugePages) && isHugePages(name)) {
				names = append(names, string(name))
			}
		}
		slices.Sort(names)
		for _, name := range names {
			c.refuse(path.Key(name), "only "+supportedNames(supported)+" are supported; "+insteadOf(name))
		}
	}
}

// hugePages stands for huge pages of all sizes in a list of supported resources.
const hugePages corev1.ResourceName = corev1.ResourceHugePagesPrefix

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func supportedNames(supported []corev1.ResourceName) string {
	names := make([]string, 0, len(supported))
	for _, name := range supported {
		names = append(names, strings.TrimSuffix(string(name), "-"))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// insteadOf is what to do instead of asking for a resource.
func insteadOf(resource string) string {
	if strings.Contains(resource, "/") { // of a device plugin, which registers with a kubelet
		return passTheDevice
	}
	if isHugePages(corev1.ResourceName(resource)) { // of the whole pod
		return "set them for each container"
	}
	return removeIt
}
