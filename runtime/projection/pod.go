// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/downwardapi"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// tokenMode is the mode of a token that belongs to one user or group of the pod.
const tokenMode int32 = 0o600

// downwardAPI shows fields of the pod. (volume/downwardapi/downwardapi.go:CollectData)
func (f Facts) downwardAPI(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode int32) (map[string]File, error) {
	files := make(map[string]File, len(items))
	var errs []error
	for i := range items {
		text, err := f.field(pod, &items[i])
		if err != nil {
			errs = append(errs, err)
		}
		files[path.Clean(items[i].Path)] = File{Data: []byte(text), Mode: either(items[i].Mode, mode)}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return files, nil
}

func (f Facts) field(pod *corev1.Pod, item *corev1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return downwardapi.Metadata(&pod.ObjectMeta, item.FieldRef.FieldPath)
	case item.ResourceFieldRef != nil:
		name := item.ResourceFieldRef.ContainerName
		for c := range podspec.InitAndMain(pod) {
			if c.Name == name {
				return downwardapi.Resource(c, item.ResourceFieldRef, f.Allocatable)
			}
		}
		return "", fmt.Errorf("container %s not found", name)
	}
	return "", nil
}

// token shows a service account token: to all of the pod, or to the one user that its
// containers run as, or to the group that owns its volumes.
// (volume/projected/projected.go:collectData)
func (f Facts) token(pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection, mode int32) (map[string]File, error) {
	got, known := f.Tokens[objects.TokenOf(source)]
	if !known {
		return nil, fmt.Errorf("no token for %s was asked for", source.Path)
	}
	if got.Err != nil {
		return nil, got.Err
	}
	file := tokenFile(pod, mode)
	file.Data = []byte(got.Value)
	return map[string]File{path.Clean(source.Path): file}, nil
}

// tokenFile returns mode and owner of a token's file.
func tokenFile(pod *corev1.Pod, mode int32) File {
	owner := CommonUser(pod)
	if owner != nil || hasGroup(pod) {
		mode = tokenMode
	}
	return File{Mode: mode, Owner: owner}
}

func hasGroup(pod *corev1.Pod) bool {
	return pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.FSGroup != nil
}

// CommonUser is the user that all containers are set to run as; nil when there is no
// such one. (volume/util/util.go:FsUserFrom)
func CommonUser(pod *corev1.Pod) *int64 {
	var common, ofPod *int64
	if pod.Spec.SecurityContext != nil {
		ofPod = pod.Spec.SecurityContext.RunAsUser
	}
	agrees := func(own *corev1.SecurityContext) bool {
		user := ofPod
		if own != nil && own.RunAsUser != nil {
			user = own.RunAsUser
		}
		if user == nil || common != nil && *common != *user {
			return false
		}
		common = user
		return true
	}
	for c := range podspec.InitAndMain(pod) {
		if !agrees(c.SecurityContext) {
			return nil
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if !agrees(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return nil
		}
	}
	return common
}
