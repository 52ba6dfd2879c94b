// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MountedImage is a volume of kind image that a container mounts.
type MountedImage struct {
	Volume string
	Image  ImageKey
}

// MountedImages returns the volumes of kind image that a container mounts, in the order of
// its mounts, each once.
func MountedImages(pod *corev1.Pod, c *corev1.Container) []MountedImage {
	var mounted []MountedImage
	for _, mount := range c.VolumeMounts {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if v.Name != mount.Name || v.Image == nil {
				continue
			}
			if image := (MountedImage{v.Name, ImageKey{v.Image.Reference, v.Image.PullPolicy}}); !slices.Contains(mounted, image) {
				mounted = append(mounted, image)
			}
		}
	}
	return mounted
}

// ImageKeysOf returns the keys of all images that a container needs, each once: the one
// that it starts from first, then those that it mounts.
func ImageKeysOf(pod *corev1.Pod, c *corev1.Container) []ImageKey {
	keys := []ImageKey{ImageKeyOf(c)}
	for _, v := range MountedImages(pod, c) {
		if !slices.Contains(keys, v.Image) {
			keys = append(keys, v.Image)
		}
	}
	return keys
}

// ImageKeys yields the keys of all images that containers need.
func ImageKeys(pod *corev1.Pod, containers iter.Seq[*corev1.Container]) iter.Seq[ImageKey] {
	return func(yield func(ImageKey) bool) {
		for c := range containers {
			for _, key := range ImageKeysOf(pod, c) {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// Key returns the key of the image that is needed; false if the pod does not name it.
func (n *ImageNeed) Key(pod *corev1.Pod, c *corev1.Container) (ImageKey, bool) {
	if n.Volume == "" {
		return ImageKeyOf(c), true
	}
	for _, v := range MountedImages(pod, c) {
		if v.Volume == n.Volume {
			return v.Image, true
		}
	}
	return ImageKey{}, false
}

// volumesOfSandbox returns the volumes as far as a change of them needs another sandbox:
// how an image is pulled is not part of it.
func volumesOfSandbox(volumes []corev1.Volume) []corev1.Volume {
	if !slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Image != nil }) {
		return volumes
	}
	volumes = slices.Clone(volumes)
	for i := range volumes {
		if image := volumes[i].Image; image != nil {
			volumes[i].Image = &corev1.ImageVolumeSource{Reference: image.Reference}
		}
	}
	return volumes
}
