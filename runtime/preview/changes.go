// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// changes are the differences of two templates.
type changes struct {
	// fixed are the fields that are fixed when the sandbox is created, and
	// inPlace those of the pod that are taken over without a restart.
	fixed, inPlace []string
	// restart is the annotation that asks for a restart.
	restart []string
	// containers by name, of those that both templates have.
	containers map[string]containerChanges
}

type containerChanges struct {
	// fixed are the fields that are fixed when the container is created.
	fixed, inPlace []string
}

// compare finds the fields that differ. Whether one is fixed is not listed here:
// it is if the definition's hash differs when that field alone is changed.
func compare(before, after *corev1.Pod) *changes {
	c := &changes{containers: map[string]containerChanges{}}
	c.comparePods(before, after)
	for _, now := range containersOf(after) {
		if old := find(before, now.container.Name); old != nil {
			c.containers[now.container.Name] = compareContainers(old.container, now.container)
		}
	}
	return c
}

func (c *changes) comparePods(before, after *corev1.Pod) {
	c.compareMetadata(before, after)
	hash := plan.HashPod(before)
	for i, name := range differing(before.Spec, after.Spec) {
		switch name {
		case "containers", "initContainers", "ephemeralContainers", "nodeName":
			continue
		}
		one := before.DeepCopy()
		setField(&one.Spec, &after.Spec, i)
		c.add("spec."+name, plan.HashPod(one) != hash)
	}
	one := before.DeepCopy()
	one.Spec.Containers, one.Spec.InitContainers = after.Spec.Containers, after.Spec.InitContainers
	if plan.HashPod(one) != hash {
		c.add("host ports, or whether a container is privileged", true)
	}
}

func (c *changes) compareMetadata(before, after *corev1.Pod) {
	const restartedAt = "metadata.annotations[" + v1alpha1.AnnotationRestartedAt + "]"
	switch now := after.Annotations[v1alpha1.AnnotationRestartedAt]; {
	case now == before.Annotations[v1alpha1.AnnotationRestartedAt]:
	case now == "":
		c.add(restartedAt, false)
	default:
		c.restart = []string{restartedAt}
	}
	if !equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		c.add("metadata.labels", false)
	}
	if !equality.Semantic.DeepEqual(withoutRestartedAt(before.Annotations), withoutRestartedAt(after.Annotations)) {
		c.add("metadata.annotations", false)
	}
}

func withoutRestartedAt(annotations map[string]string) map[string]string {
	rest := make(map[string]string, len(annotations))
	for k, v := range annotations {
		if k != v1alpha1.AnnotationRestartedAt {
			rest[k] = v
		}
	}
	return rest
}

func (c *changes) add(field string, fixed bool) {
	if fixed {
		c.fixed = append(c.fixed, field)
	} else {
		c.inPlace = append(c.inPlace, field)
	}
}

func compareContainers(before, after *corev1.Container) containerChanges {
	out := containerChanges{fixed: plan.ChangedFields(before, after)}
	add := func(field string) {
		if !slices.Contains(out.fixed, field) {
			out.inPlace = append(out.inPlace, field)
		}
	}
	for _, name := range differing(*before, *after) {
		if name != "lifecycle" {
			add(name)
			continue
		}
		// Hooks are taken over, the stop signal is fixed.
		for _, name := range differing(lifecycleOf(before), lifecycleOf(after)) {
			add("lifecycle." + name)
		}
	}
	return out
}

func lifecycleOf(c *corev1.Container) corev1.Lifecycle {
	if c.Lifecycle == nil {
		return corev1.Lifecycle{}
	}
	return *c.Lifecycle
}

// differing yields index and JSON name of the fields of two structs of one type
// that differ, in the order of the type.
func differing[T any](a, b T) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range va.NumField() {
			if equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
				continue
			}
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
			if !yield(i, name) {
				return
			}
		}
	}
}

// setField copies one field from one struct to another.
func setField[T any](into, from *T, i int) {
	reflect.ValueOf(into).Elem().Field(i).Set(reflect.ValueOf(from).Elem().Field(i))
}
