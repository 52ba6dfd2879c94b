// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/conformance/kubelet"
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

// entry is an entry of a trace.
type entry = recordings.Entry

// services are what the manager calls. Errors come without the wrapping of gRPC,
// and a hook's with its output.
type services struct {
	kubelet.RuntimeServices
	f *fakecri.Recorded
}

func (s services) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	stdout, err = s.f.RunHook(ctx, id, cmd, timeout)
	return stdout, nil, err
}

func (services) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{}, nil
}

type imageServices struct {
	kubelet.ImageServices
	f *fakecri.Recorded
}

func (imageServices) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return nil, nil
}

// PullImage leaves the code on an unknown error.
func (s imageServices) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	out, err := s.f.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image})
	return out.GetImageRef(), err
}
