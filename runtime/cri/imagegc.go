// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// ListImages returns all images that the runtime has.
func (c *Client) ListImages(ctx context.Context) ([]images.Image, error) {
	response, err := invoke(ctx, c.callTimeout, "list images", c.images.ListImages, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	all := make([]images.Image, 0, len(response.GetImages()))
	for _, i := range response.GetImages() {
		all = append(all, images.Image{
			ID: i.GetId(), Names: slices.Concat(i.GetRepoTags(), i.GetRepoDigests()),
			Size: int64(min(i.GetSize(), 1<<62)), Pinned: i.GetPinned(),
		})
	}
	return all, nil
}

// ImagesOfContainers returns the images that containers start from or mount, by all that the
// runtime calls them: of all containers, whoever made them and whether they run or not. It
// fails if one cannot be read. (kubelet images/image_gc_manager.go:handleImageVolumes)
func (c *Client) ImagesOfContainers(ctx context.Context) ([]string, error) {
	response, err := invoke(ctx, c.callTimeout, "list containers", c.runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, ctr := range response.GetContainers() {
		used[ctr.GetImageId()], used[ctr.GetImageRef()], used[ctr.GetImage().GetImage()] = true, true, true
		s, err := c.rawContainerStatus(ctx, ctr.GetId())
		if runtimeerror.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		used[s.GetImageId()], used[s.GetImageRef()] = true, true
		for _, mount := range s.GetMounts() {
			used[mount.GetImage().GetImage()] = true
		}
	}
	delete(used, "")
	names := make([]string, 0, len(used))
	for name := range used {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// RemoveImage removes an image with all its names. One that is gone is no error.
func (c *Client) RemoveImage(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("remove image", id), c.images.RemoveImage,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	if runtimeerror.IsNotFound(err) {
		return nil
	}
	return err
}
