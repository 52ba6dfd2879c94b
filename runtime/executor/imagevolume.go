// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// volumeImage is what became of the image of a volume in a sync.
type volumeImage struct {
	ref string
	err error
}

// volumeImages returns what the runtime calls the images of the volumes that a container
// mounts, by volume, and pulls them before, once in a sync. A container that cannot have
// one of them does not start, with the reason that a container has whose own image cannot
// be had. (kubelet kuberuntime_manager.go:getImageVolumes, toKubeContainerImageVolumes)
func (s *syncRun) volumeImages(ctx context.Context, c *corev1.Container) (map[string]string, error) {
	var failure error
	refs := map[string]string{}
	for _, v := range plan.MountedImages(s.in.Pod, c) {
		image := s.volumeImage(ctx, c, v)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if image.err != nil {
			s.failed(c, "", reasonOf(image.err))
			failure = image.err
		}
		refs[v.Volume] = image.ref
	}
	return refs, failure
}

func (s *syncRun) volumeImage(ctx context.Context, c *corev1.Container, v plan.MountedImage) volumeImage {
	image, done := s.images[v.Volume]
	if done {
		return image
	}
	image.ref, image.err = s.e.images.ensure(ctx, s.in.Pod, "", v.Image, s.in.Actions.VolumeImageOf(c.Name, v.Volume))
	if s.images == nil {
		s.images = map[string]volumeImage{}
	}
	s.images[v.Volume] = image
	return image
}
