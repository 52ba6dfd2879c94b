// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Paths are the fields of a spec that refer to a ConfigMap or Secret or ask for a token. path
// is where the spec stands in its object.
func Paths(spec *corev1.PodSpec, path *field.Path) []*field.Path {
	var found []*field.Path
	if token := spec.AutomountServiceAccountToken; token != nil && *token {
		found = append(found, path.Child("automountServiceAccountToken"))
	}
	if len(spec.ImagePullSecrets) > 0 {
		found = append(found, path.Child("imagePullSecrets"))
	}
	for i := range spec.Volumes {
		found = append(found, pathsOfVolume(&spec.Volumes[i].VolumeSource, path.Child("volumes").Index(i))...)
	}
	for i := range spec.InitContainers {
		found = append(found, pathsOfContainer(&spec.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		found = append(found, pathsOfContainer(&spec.Containers[i], path.Child("containers").Index(i))...)
	}
	return found
}

func pathsOfVolume(source *corev1.VolumeSource, path *field.Path) (found []*field.Path) {
	if source.ConfigMap != nil {
		found = append(found, path.Child("configMap"))
	}
	if source.Secret != nil {
		found = append(found, path.Child("secret"))
	}
	if source.Projected == nil {
		return found
	}
	for i, part := range source.Projected.Sources {
		at := path.Child("projected", "sources").Index(i)
		if part.ConfigMap != nil {
			found = append(found, at.Child("configMap"))
		}
		if part.Secret != nil {
			found = append(found, at.Child("secret"))
		}
		if part.ServiceAccountToken != nil {
			found = append(found, at.Child("serviceAccountToken"))
		}
	}
	return found
}

func pathsOfContainer(c *corev1.Container, path *field.Path) (found []*field.Path) {
	for i, from := range c.EnvFrom {
		at := path.Child("envFrom").Index(i)
		if from.ConfigMapRef != nil {
			found = append(found, at.Child("configMapRef"))
		}
		if from.SecretRef != nil {
			found = append(found, at.Child("secretRef"))
		}
	}
	for i, variable := range c.Env {
		if variable.ValueFrom == nil {
			continue
		}
		at := path.Child("env").Index(i).Child("valueFrom")
		if variable.ValueFrom.ConfigMapKeyRef != nil {
			found = append(found, at.Child("configMapKeyRef"))
		}
		if variable.ValueFrom.SecretKeyRef != nil {
			found = append(found, at.Child("secretKeyRef"))
		}
	}
	return found
}
