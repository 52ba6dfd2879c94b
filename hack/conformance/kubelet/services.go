// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"
)

// requestTimeout is the kubelet's runtimeRequestTimeout.
const requestTimeout = 2 * time.Minute

// RuntimeServices are what k8s.io/cri-client is to the kubelet: it cannot be used here itself because it dials a socket, and a socket cannot be
// waited for on a virtual clock. What the manager does not call is nil.
type RuntimeServices struct {
	internalapi.RuntimeService
	client runtimeapi.RuntimeServiceClient
}

// ImageServices are the same for images.
type ImageServices struct {
	internalapi.ImageManagerService
	client runtimeapi.ImageServiceClient
}

// NewServices returns both over a connection.
func NewServices(conn grpc.ClientConnInterface) (RuntimeServices, ImageServices) {
	return RuntimeServices{client: runtimeapi.NewRuntimeServiceClient(conn)}, ImageServices{client: runtimeapi.NewImageServiceClient(conn)}
}

func limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (s RuntimeServices) Version(ctx context.Context, version string) (*runtimeapi.VersionResponse, error) {
	return s.client.Version(ctx, &runtimeapi.VersionRequest{Version: version})
}

func (s RuntimeServices) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	ctx, cancel := limited(ctx, 2*requestTimeout)
	defer cancel()
	response, err := s.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return response.GetPodSandboxId(), err
}

func (s RuntimeServices) StopPodSandbox(ctx context.Context, id string) error {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (s RuntimeServices) RemovePodSandbox(ctx context.Context, id string) error {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

func (s RuntimeServices) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	return s.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose})
}

func (s RuntimeServices) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	response, err := s.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
	return response.GetItems(), err
}

func (s RuntimeServices) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	response, err := s.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, Config: config, SandboxConfig: sandboxConfig,
	})
	return response.GetContainerId(), err
}

func (s RuntimeServices) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (s RuntimeServices) StopContainer(ctx context.Context, id string, timeout int64) error {
	ctx, cancel := limited(ctx, requestTimeout+time.Duration(timeout)*time.Second)
	defer cancel()
	_, err := s.client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

func (s RuntimeServices) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

func (s RuntimeServices) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	response, err := s.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	return response.GetContainers(), err
}

func (s RuntimeServices) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	return s.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
}

var errTimedOut = errors.New("command timed out")

// ExecSync has no deadline of its own for a hook, which has no timeout; a command
// that exits with another code than 0 is an error.
func (s RuntimeServices) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	if timeout != 0 {
		ctx, cancel = limited(ctx, requestTimeout+timeout)
	}
	defer cancel()
	response, err := s.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64(timeout.Seconds())})
	if status.Code(err) == codes.DeadlineExceeded {
		err = fmt.Errorf("%w: %q timed out after %s", errTimedOut, strings.Join(cmd, " "), timeout)
	}
	if err != nil {
		return nil, nil, err
	}
	if response.GetExitCode() != 0 {
		err = utilexec.CodeExitError{
			Err:  fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), response.GetExitCode(), response.GetStderr()),
			Code: int(response.GetExitCode()),
		}
	}
	return response.GetStdout(), response.GetStderr(), err
}

func (s ImageServices) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	ctx, cancel := limited(ctx, requestTimeout)
	defer cancel()
	return s.client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
}

// PullImage takes the code off an unknown error, as cri-client does.
func (s ImageServices) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	response, err := s.client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox})
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown {
		return "", errors.New(s.Message())
	}
	return response.GetImageRef(), err
}
