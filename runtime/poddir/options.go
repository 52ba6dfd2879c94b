// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/expansion"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

// Options is what the pod's place on the node adds to a container.
type Options struct {
	// Command and Args have their $(VAR) references expanded.
	Command, Args []string
	// Env in the order of the template, envFrom first, the API server's address last; of
	// a name given twice, the last value at the place of the first.
	Env []EnvVar
	// Mounts are the volumes in the template's order, then the hosts file and the
	// termination message file.
	Mounts []Mount
	// TerminationLog is the host path of the termination message file, empty when
	// the container has no terminationMessagePath. It is among the mounts too.
	TerminationLog string
	// LogPath is relative to LogDirectory.
	LogPath string
}

// EnvVar is an environment variable with its value resolved.
type EnvVar struct {
	Name, Value string
}

// Mount is a mount of a host path, or of an image, in a container.
type Mount struct {
	ContainerPath, HostPath string
	// Image is the volume whose image is mounted; empty for a host path. ImageSubPath is
	// what is shown of it.
	Image, ImageSubPath string
	ReadOnly            bool
	RecursiveReadOnly   bool
	Propagation         corev1.MountPropagationMode
}

// ContainerOptions resolves everything of a container that depends on the node and
// makes the files it needs, for each instance again: call it once before the
// container is created. An error is one of the container's configuration.
// (kubelet_pods.go:GenerateRunContainerOptions)
func (m *Manager) ContainerOptions(ctx context.Context, pod *corev1.Pod, c *corev1.Container, podIPs []string, restartCount int) (Options, error) {
	for _, id := range []Identity{IdentityOf(pod), {UID: "container", Name: c.Name}} {
		if err := id.validate(); err != nil {
			return Options{}, fmt.Errorf("options of container %q: %w", c.Name, err)
		}
	}
	env, values, err := m.awaitEnvironment(ctx, pod, c, podIPs)
	if err != nil {
		return Options{}, err
	}
	options := Options{
		Command: expansion.All(c.Command, expansion.In(values)),
		Args:    expansion.All(c.Args, expansion.In(values)),
		Env:     env,
		LogPath: filepath.Join(c.Name, strconv.Itoa(restartCount)+".log"),
	}
	logs := m.LogDirectory(pod)
	if err := m.patience.Do(ctx, logs, func() error { return os.MkdirAll(filepath.Join(logs, c.Name), logDirMode) }); err != nil {
		return Options{}, fmt.Errorf("make log directory of container %q: %w", c.Name, err)
	}
	if options.Mounts, err = m.mounts(ctx, pod, c, podIPs, values); err != nil {
		return Options{}, err
	}
	if c.TerminationMessagePath == "" {
		return options, nil
	}
	if options.TerminationLog, err = m.newTerminationLog(pod, c.Name, restartCount); err != nil {
		return Options{}, fmt.Errorf("make termination message file of container %q: %w", c.Name, err)
	}
	options.Mounts = append(options.Mounts, Mount{
		ContainerPath: absolute(c.TerminationMessagePath),
		HostPath:      options.TerminationLog,
		Propagation:   corev1.MountPropagationNone,
	})
	return options, nil
}

// mounts are the volume mounts and the hosts file. (kubelet_pods.go:makeMounts)
func (m *Manager) mounts(ctx context.Context, pod *corev1.Pod, c *corev1.Container, podIPs []string, env map[string]string) ([]Mount, error) {
	var mounts []Mount
	for i := range c.VolumeMounts {
		mount, err := m.volumeMount(ctx, pod, c, i, env)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	hosts, err := m.hostsMount(pod, c, podIPs)
	if err != nil {
		return nil, err
	}
	if hosts != nil {
		mounts = append(mounts, *hosts)
	}
	return mounts, nil
}

func (m *Manager) volumeMount(ctx context.Context, pod *corev1.Pod, c *corev1.Container, index int, env map[string]string) (Mount, error) {
	wanted := &c.VolumeMounts[index]
	hostPath, ok := m.volumes.Path(pod, wanted.Name)
	if !ok {
		return Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q", wanted.Name, c.Name)
	}
	subPath := wanted.SubPath
	if wanted.SubPathExpr != "" {
		var err error
		if subPath, err = expandSubPath(wanted.SubPathExpr, env); err != nil {
			return Mount{}, err
		}
	}
	propagation, err := propagationOf(wanted)
	if err != nil {
		return Mount{}, err
	}
	recursive, err := m.recursiveReadOnly(wanted)
	if err != nil {
		return Mount{}, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	mount := Mount{
		ContainerPath:     absolute(wanted.MountPath),
		ReadOnly:          wanted.ReadOnly || m.volumes.ReadOnly(pod, wanted.Name),
		RecursiveReadOnly: recursive,
		Propagation:       propagation,
	}
	if subPath != "" {
		if err := checkSubPath(subPath); err != nil {
			return Mount{}, err
		}
	}
	if hostPath == "" {
		mount.Image, mount.ImageSubPath = wanted.Name, subPath
		return mount, nil
	}
	if subPath != "" {
		if hostPath, err = m.volumes.BindSubPath(ctx, volume.SubPath{
			PodUID: pod.UID, Volume: wanted.Name, Container: c.Name, Index: index,
			VolumePath: hostPath, Path: subPath, Propagation: propagation,
		}); err != nil {
			// The cause names the node's files: it goes to the log, not to who
			// reads the workload's events.
			m.config.Logger.Error(err, "Failed to prepare subPath", "pod", pod.Name, "namespace", pod.Namespace,
				"podUID", pod.UID, "container", c.Name, "volumeMount", wanted.Name)
			return Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", wanted.Name, c.Name)
		}
	}
	mount.HostPath = hostPath
	return mount, nil
}

func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("/", path)
}

func propagationOf(mount *corev1.VolumeMount) (corev1.MountPropagationMode, error) {
	if mount.MountPropagation == nil {
		return corev1.MountPropagationNone, nil
	}
	switch mode := *mount.MountPropagation; mode {
	case corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional:
		return mode, nil
	}
	return "", fmt.Errorf("invalid MountPropagation mode: %q", *mount.MountPropagation)
}

// recursiveReadOnly decides the mode of a mount.
// (kubelet_pods.go:resolveRecursiveReadOnly)
func (m *Manager) recursiveReadOnly(mount *corev1.VolumeMount) (bool, error) {
	if mount.RecursiveReadOnly == nil || *mount.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !mount.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", mount.Name)
	}
	if p := mount.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", mount.Name, *p)
	}
	switch mode := *mount.RecursiveReadOnly; {
	case mode == corev1.RecursiveReadOnlyIfPossible:
		return m.RecursiveReadOnly(), nil
	case mode != corev1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", mode)
	case !m.RecursiveReadOnly():
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", mount.Name)
	default:
		return true, nil
	}
}
