// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// ImageRef returns what the runtime calls an image; "" when it does not have it.
// (kubelet kuberuntime_image.go:GetImageRef)
func (c *Client) ImageRef(ctx context.Context, image string) (string, error) {
	i, err := c.imageStatus(ctx, image)
	return i.GetId(), err
}

// Images returns what the runtime calls the images of these names of templates;
// one that it could not be asked for is left out.
func (c *Client) Images(ctx context.Context, names []string) plan.Images {
	images := plan.Images{}
	for _, name := range names {
		if _, known := images[name]; known {
			continue
		}
		image, err := podspec.ImageName(name)
		if err != nil {
			continue // The start says what is wrong with it.
		}
		if ref, err := c.ImageRef(ctx, image); err == nil {
			images[name] = ref
		}
	}
	return images
}

// ImageSize returns an image's size in bytes; 0 when the runtime does not have
// it.
func (c *Client) ImageSize(ctx context.Context, image string) (uint64, error) {
	i, err := c.imageStatus(ctx, image)
	return i.GetSize(), err
}

// imageStatus is nil for an image that the runtime does not have.
func (c *Client) imageStatus(ctx context.Context, image string) (*runtimeapi.Image, error) {
	response, err := invoke(ctx, c.callTimeout, quote("inspect image", image), c.images.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return nil, err
	}
	if i := response.GetImage(); i != nil {
		c.users.put(i.GetId(), userOf(i))
		return i, nil
	}
	return nil, nil
}

// PullImage pulls an image for a pod, with a login or without any, and returns what the
// runtime calls it. Cancelling the context ends the pull.
func (c *Client) PullImage(ctx context.Context, image string, pod *corev1.Pod, login *images.Login) (string, error) {
	annotations, err := sandboxAnnotations(pod)
	if err != nil {
		return "", err
	}
	response, err := invoke(ctx, 0, quote("pull image", image), c.images.PullImage,
		&runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: image},
			Auth:  authOf(login),
			SandboxConfig: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{
					Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID),
				},
				Labels:      c.sandboxLabels(pod),
				Annotations: annotations,
			},
		})
	if err != nil {
		return "", withoutUnknown(err)
	}
	if response.GetImageRef() == "" {
		return "", badAnswer(quote("pull image", image), "the runtime gave no reference")
	}
	return response.GetImageRef(), nil
}

func authOf(login *images.Login) *runtimeapi.AuthConfig {
	if login == nil {
		return nil
	}
	return &runtimeapi.AuthConfig{Username: login.Username, Password: login.Password}
}

// withoutUnknown leaves of an unknown error what the runtime said: a code says
// nothing more, and who looks for reasons such as RegistryUnavailable looks at the
// beginning. (cri-client/pkg/remote_image.go:pullImageV1)
func withoutUnknown(err error) error {
	if runtimeerror.IsUnknown(err) {
		return errors.New(runtimeerror.Message(err))
	}
	return err
}

// imageUser is who the image's command runs as; root if the runtime does not
// say. (kubelet kuberuntime/helpers.go:getImageUser)
func (c *Client) imageUser(ctx context.Context, ref, image string) (imageUser, error) {
	if user, ok := c.users.get(ref); ok {
		return user, nil
	}
	if ref == "" {
		ref = image
	}
	i, err := c.imageStatus(ctx, ref)
	if err != nil {
		return imageUser{}, err
	}
	return userOf(i), nil
}

func userOf(i *runtimeapi.Image) imageUser {
	if i.GetUid() != nil {
		uid := i.GetUid().GetValue()
		return imageUser{uid: &uid}
	}
	if i.GetUsername() != "" {
		return imageUser{name: i.GetUsername()}
	}
	root := int64(0)
	return imageUser{uid: &root}
}

// maxUsers bounds the memory of users.
const maxUsers = 1024

// userCache remembers the users of images by ID: the ID names an image's
// content, so that they never change.
type userCache struct {
	mu    sync.Mutex
	users map[string]imageUser
}

func newUserCache() *userCache {
	return &userCache{users: map[string]imageUser{}}
}

func (c *userCache) get(id string) (imageUser, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	user, ok := c.users[id]
	return user, ok
}

func (c *userCache) put(id string, user imageUser) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.users) >= maxUsers {
		clear(c.users)
	}
	c.users[id] = user
}
