// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// configError is why a container can't be created as the template describes it;
// the runtime was not asked to. It carries no gRPC status.
type configError struct {
	message string
}

func (e *configError) Error() string {
	return e.message
}

// InvalidConfig lets callers distinguish CreateContainerConfigError from
// CreateContainerError without knowing this package.
func (e *configError) InvalidConfig() bool {
	return true
}

func asConfigError(err error) error {
	if err == nil {
		return nil
	}
	return &configError{message: runtimeerror.Message(err)}
}

// CreateContainer creates a container in its sandbox and returns its ID. A
// runtime may drop the template's stop signal without a word (containerd before
// 2.3): the status of the container shows it before the start. An
// error that has the method InvalidConfig() bool is the template's, not
// the runtime's. (kubelet kuberuntime_container.go:startContainer)
func (c *Client) CreateContainer(ctx context.Context, pod *corev1.Pod, container *corev1.Container, options plan.CreateOptions) (string, error) {
	users, err := c.userNamespace(ctx, pod)
	if err != nil {
		return "", asConfigError(err)
	}
	config, err := c.containerConfig(ctx, pod, container, options, users)
	if err != nil {
		return "", asConfigError(err)
	}
	sandbox, err := c.sandboxConfig(pod, options.SandboxAttempt, users)
	if err != nil {
		return "", asConfigError(err)
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(sandbox.LogDirectory, config.LogPath)), logDirMode); err != nil {
		return "", asConfigError(fmt.Errorf("create container log directory for container %s failed: %w", container.Name, err))
	}
	operation := quote("create container", container.Name)
	response, err := invoke(ctx, c.callTimeout, operation, c.runtime.CreateContainer,
		&runtimeapi.CreateContainerRequest{PodSandboxId: options.SandboxID, Config: config, SandboxConfig: sandbox})
	if err != nil {
		return "", err
	}
	if response.GetContainerId() == "" {
		return "", badAnswer(operation, "the runtime gave no ID")
	}
	return response.GetContainerId(), nil
}

// containerConfig describes a container. (kubelet
// kuberuntime_container.go:generateContainerConfig)
func (c *Client) containerConfig(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, options plan.CreateOptions, users *runtimeapi.UserNamespace,
) (*runtimeapi.ContainerConfig, error) {
	settings, err := c.config.PodDir.ContainerOptions(ctx, pod, container, options.PodIPs, options.Attempt)
	if err != nil {
		return nil, err
	}
	user, err := c.imageUser(ctx, options.ImageRef, container.Image)
	if err != nil {
		return nil, err
	}
	if err := verifyNonRoot(pod, container, user); err != nil {
		return nil, err
	}
	security, err := c.containerSecurity(pod, container, user, users)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(container, c.config.Differences)
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(pod, container, options)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: container.Name, Attempt: uint32(max(options.Attempt, 0))},
		Image:       &runtimeapi.ImageSpec{Image: options.ImageRef, UserSpecifiedImage: container.Image},
		Command:     settings.Command,
		Args:        settings.Args,
		WorkingDir:  container.WorkingDir,
		Envs:        envs(settings.Env),
		Mounts:      mapped(mounts(pod, settings.Mounts, options.VolumeImages), users),
		Labels:      c.containerLabels(pod, container),
		Annotations: annotations,
		LogPath:     settings.LogPath,
		Stdin:       container.Stdin,
		StdinOnce:   container.StdinOnce,
		Tty:         container.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       c.node.containerResources(pod, container),
			SecurityContext: security,
		},
	}, nil
}

// stopSignal is the template's; RUNTIME_DEFAULT when it has none.
func stopSignal(container *corev1.Container, d plan.Differences) (runtimeapi.Signal, error) {
	if !d.StopSignals || container.Lifecycle == nil || container.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT, nil
	}
	signal, ok := signalNumber(*container.Lifecycle.StopSignal)
	if !ok {
		return 0, fmt.Errorf("unknown stop signal %q", *container.Lifecycle.StopSignal)
	}
	return signal, nil
}

func envs(variables []poddir.EnvVar) []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, 0, len(variables))
	for _, v := range variables {
		out = append(out, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
	}
	return out
}

func mounts(pod *corev1.Pod, list []poddir.Mount, images map[string]string) []*runtimeapi.Mount {
	out := make([]*runtimeapi.Mount, 0, len(list))
	for _, m := range list {
		mount := &runtimeapi.Mount{
			ContainerPath:     m.ContainerPath,
			HostPath:          m.HostPath,
			Readonly:          m.ReadOnly,
			RecursiveReadOnly: m.RecursiveReadOnly,
			Propagation:       propagation(m.Propagation),
			ImageSubPath:      m.ImageSubPath,
		}
		if m.Image != "" {
			mount.Image = &runtimeapi.ImageSpec{
				Image: images[m.Image], UserSpecifiedImage: imageOfVolume(pod, m.Image), Annotations: pod.Annotations,
			}
		}
		out = append(out, mount)
	}
	return out
}

// imageOfVolume is how the template names the image of a volume.
func imageOfVolume(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name && v.Image != nil {
			return v.Image.Reference
		}
	}
	return ""
}

// propagation: none is private. (kubelet kubelet_pods.go:translateMountPropagation)
func propagation(mode corev1.MountPropagationMode) runtimeapi.MountPropagation {
	switch mode {
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	case corev1.MountPropagationNone:
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}

// StartContainer starts a container that was created.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("start container", id), c.runtime.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// StopContainer sends the stop signal and, when the container has not left after
// timeoutSeconds, SIGKILL. Its context must not be cancelled while it waits: the
// runtime would then never send SIGKILL.
func (c *Client) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	// Many years would overflow a Duration.
	patience := time.Duration(min(timeoutSeconds, maxStopSeconds)) * time.Second
	_, err := invoke(ctx, c.callTimeout+patience, quote("stop container", id), c.runtime.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeoutSeconds})
	return err
}

// maxStopSeconds is a hundred years.
const maxStopSeconds = 100 * 365 * 24 * 3600

// RemoveContainer removes a container, by force if it runs; one that is gone is
// no error.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := invoke(ctx, c.callTimeout, quote("remove container", id), c.runtime.RemoveContainer,
		&runtimeapi.RemoveContainerRequest{ContainerId: id})
	return ignoreNotFound(err)
}

// execStart is how long the runtime may take to start a command. A command that is
// cut off while it starts keeps the runtime from seeing the end of the container
// for half a minute, because its shim waits that long for pipes that are closed.
// (containerd cmd/containerd-shim-runc-v2/process/exec.go:start)
const execStart = 2 * time.Second

// execSlack is how much longer than the command's timeout a runtime may take to answer: to end the
// command, and to read what it wrote. A process that the command has left behind may keep its
// output open for ever, and containerd reads to the end unless drain_exec_sync_io_timeout is set.
const execSlack = 2 * time.Second

// ExecSync runs a command in a container and waits for it. A command that
// exceeds timeout is an error with code DeadlineExceeded; a timeout of 0 is
// none. CRI counts whole seconds: a fraction is rounded up. Cancelling the
// context ends the wait and kills the command, not before it had the time to
// start. (cri-client/pkg/remote_runtime.go:ExecSync)
func (c *Client) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error) {
	operation := quote("run a command in container", id)
	if ctx.Err() != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", operation, status.FromContextError(ctx.Err()).Err())
	}
	limit, patience := (timeout+time.Second-1)/time.Second, time.Duration(0)
	if timeout > 0 {
		patience = limit*time.Second + execSlack
	}
	type outcome struct {
		response *runtimeapi.ExecSyncResponse
		err      error
	}
	done := make(chan outcome, 1)
	started := time.Now().Add(execStart)
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.commands.Go(func() {
		defer cancel()
		var o outcome
		o.err = panics.Contain(logr.FromContextOrDiscard(ctx), operation, func() (err error) {
			o.response, err = invoke(call, patience, operation, c.runtime.ExecSync,
				&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64(limit)})
			return err
		})
		done <- o
	})
	select {
	case o := <-done:
		if o.err != nil {
			return nil, nil, 0, o.err
		}
		return o.response.GetStdout(), o.response.GetStderr(), o.response.GetExitCode(), nil
	case <-ctx.Done():
		time.AfterFunc(time.Until(started), cancel)
		return nil, nil, 0, fmt.Errorf("%s: %w", operation, status.FromContextError(ctx.Err()).Err())
	}
}
