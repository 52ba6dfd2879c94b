// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// nestedMountpoints are the directories of a volume on which containers have something
// else mounted, by their paths in the volume; those below another one are not among
// them. A runtime cannot make them in a volume that is read-only.
// (volume/util/nested_volumes.go:getNestedMountpoints)
func nestedMountpoints(pod *corev1.Pod, volume string) []string {
	var found []string
	for c := range podspec.InitAndMain(pod) {
		found = append(found, nestedIn(c.VolumeMounts, volume)...)
	}
	for i := range pod.Spec.EphemeralContainers {
		found = append(found, nestedIn(pod.Spec.EphemeralContainers[i].VolumeMounts, volume)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func nestedIn(mounts []corev1.VolumeMount, volume string) []string {
	paths := make([]string, 0, len(mounts))
	for i := range mounts {
		paths = append(paths, path.Clean(mounts[i].MountPath))
	}
	slices.Sort(paths)
	var found []string
	for i := range mounts {
		if mounts[i].Name != volume {
			continue
		}
		at := path.Clean(mounts[i].MountPath) + "/"
		var above []string
		for _, other := range paths {
			inside, nested := strings.CutPrefix(other, at)
			if !nested || slices.ContainsFunc(above, func(dir string) bool { return strings.HasPrefix(other, dir) }) {
				continue
			}
			above = append(above, other+"/")
			found = append(found, inside)
		}
	}
	return found
}
