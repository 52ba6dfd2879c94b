// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Definitions are what a pod's sandbox and containers should have been made
// from. A missing entry means that nothing is known, and nothing has changed.
type Definitions struct {
	// Pod is HashPod of the pod.
	Pod string
	// Containers is HashContainer of each init and main container, by name.
	Containers map[string]string
	// Resources are those of each init and main container, by name.
	Resources map[string]Resources
	// RestartedAt is the value of v1alpha1.AnnotationRestartedAt.
	RestartedAt string
}

// Define returns the definitions of a pod. It costs some hashing: once for each
// change of the pod is enough.
func Define(pod *corev1.Pod) *Definitions {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	containers, resources := make(map[string]string, n), make(map[string]Resources, n)
	for c := range podspec.InitAndMain(pod) {
		containers[c.Name] = HashContainer(c)
		resources[c.Name] = ResourcesOf(&c.Resources)
	}
	return &Definitions{
		Pod:         HashPod(pod),
		Containers:  containers,
		Resources:   resources,
		RestartedAt: pod.Annotations[v1alpha1.AnnotationRestartedAt],
	}
}

// DefinitionChanged is whether a container was made from another definition
// than the present one. A kill of such a container uses the hook and the grace
// period recorded with it: the new hook may not exist in the old image.
func DefinitionChanged(defs *Definitions, s *ContainerStatus) bool {
	return defs != nil && differs(s.Hash, defs.Containers[s.Name])
}

// Redefined is DefinitionChanged for one container.
func Redefined(c *corev1.Container, s *ContainerStatus) bool {
	return differs(s.Hash, HashContainer(c))
}

// ChangedFields names the fields that are fixed when a container is created and differ
// in two definitions, as the API does and in its order.
func ChangedFields(before, after *corev1.Container) []string {
	var names []string
	old, now := fixedFields(before), fixedFields(after)
	a, b := reflect.ValueOf(old), reflect.ValueOf(now)
	for i := range a.NumField() {
		if equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if name == "lifecycle" {
			name = "lifecycle.stopSignal" // the only one that is fixed
		}
		names = append(names, name)
	}
	return names
}

// changedSince names the fields that have changed since a container was made, nil if it
// was not made from the pod before.
func changedSince(before, now *corev1.Pod, s *ContainerStatus) []string {
	if before == nil {
		return nil
	}
	old, latest := podspec.Container(before, s.Name), podspec.Container(now, s.Name)
	if old == nil || latest == nil || Redefined(old, s) {
		return nil
	}
	return ChangedFields(old, latest)
}

// RestartRequested reports whether the restartedAt annotation was set after a
// container was created. Removing the annotation does not request a restart.
func RestartRequested(defs *Definitions, s *ContainerStatus) bool {
	return defs != nil && s.Hash != "" &&
		defs.RestartedAt != "" && defs.RestartedAt != s.Recorded.RestartedAt
}

// RunsEarlier names the running containers that were made from another definition, or before
// the restart that is requested.
func RunsEarlier(defs *Definitions, observed *PodStatus) []string {
	var names []string
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.State == ContainerRunning && observed.Current(c.Name) == c && (DefinitionChanged(defs, c) || RestartRequested(defs, c)) {
			names = append(names, c.Name)
		}
	}
	return names
}

// MadeFrom is whether what is there was made from these definitions: the newest
// sandbox and the newest instance of each container, of which there must be one.
func MadeFrom(defs *Definitions, observed *PodStatus) bool {
	if len(observed.Sandboxes) > 0 && podDefinitionChanged(defs, &observed.Sandboxes[0]) {
		return false
	}
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if observed.Current(c.Name) != c {
			continue
		}
		if _, named := defs.Containers[c.Name]; !named || DefinitionChanged(defs, c) || RestartRequested(defs, c) {
			return false
		}
	}
	return len(observed.Containers) > 0
}

// podDefinitionChanged is whether a sandbox was made from another pod-level
// definition than the present one.
func podDefinitionChanged(defs *Definitions, s *SandboxStatus) bool {
	return defs != nil && differs(s.Hash, defs.Pod)
}

// differs compares two definitions. Hashes of two versions cannot be compared,
// nor can one that is not known, which has no version: nothing has changed then,
// so that a new version of the shim restarts nothing.
func differs(recorded, expected string) bool {
	return recorded != expected && hashVersionOf(recorded) == hashVersionOf(expected)
}

func hashVersionOf(hash string) string {
	version, _, _ := strings.Cut(hash, ":")
	return version
}
