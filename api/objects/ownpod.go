// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OwnPodAdvice is what to know about the fields that OwnPod returns.
const OwnPodAdvice = "no Pod has this name or UID: a program that asks the API server for its own Pod, or binds a token to it, does not find it"

// OwnPod returns the fields of a spec that show a container the name or UID of its Pod, where
// containers also get a token: a program may ask the API server for its own Pod, and there is
// none of that name. path is where the spec stands in its object.
func OwnPod(spec *corev1.PodSpec, path *field.Path) (found []*field.Path) {
	if !getsToken(spec) {
		return nil
	}
	for i := range spec.Volumes {
		source, at := &spec.Volumes[i].VolumeSource, path.Child("volumes").Index(i)
		if source.DownwardAPI != nil {
			found = append(found, ownFiles(source.DownwardAPI.Items, at.Child("downwardAPI", "items"))...)
		}
		if source.Projected == nil {
			continue
		}
		for k, part := range source.Projected.Sources {
			if part.DownwardAPI != nil {
				found = append(found, ownFiles(part.DownwardAPI.Items, at.Child("projected", "sources").Index(k).Child("downwardAPI", "items"))...)
			}
		}
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range list.containers {
			for k, env := range list.containers[i].Env {
				if env.ValueFrom != nil && namesPod(env.ValueFrom.FieldRef) {
					found = append(found, path.Child(list.name).Index(i).Child("env").Index(k))
				}
			}
		}
	}
	return found
}

func ownFiles(items []corev1.DownwardAPIVolumeFile, path *field.Path) (found []*field.Path) {
	for i := range items {
		if namesPod(items[i].FieldRef) {
			found = append(found, path.Index(i))
		}
	}
	return found
}

func namesPod(ref *corev1.ObjectFieldSelector) bool {
	return ref != nil && (ref.FieldPath == "metadata.name" || ref.FieldPath == "metadata.uid")
}

// getsToken reports whether a container may get a token of a ServiceAccount. Whether it does
// where the spec says nothing is the ServiceAccount's to say.
func getsToken(spec *corev1.PodSpec) bool {
	if token := spec.AutomountServiceAccountToken; token == nil || *token {
		return true
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for _, part := range spec.Volumes[i].Projected.Sources {
			if part.ServiceAccountToken != nil {
				return true
			}
		}
	}
	return false
}
