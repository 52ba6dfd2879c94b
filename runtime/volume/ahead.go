// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Ahead looks whether the hostPath volumes of a pod can be set up and mounted on this node, before the pod is there. It
// makes nothing. Its error is the first that a start would have, in the words of the kubelet's event FailedMount for a
// volume.
func (m *Manager) Ahead(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.HostPath == nil {
			continue
		}
		path, wanted := volume.HostPath.Path, hostPathType(volume.HostPath)
		err := m.patience.Do(ctx, path, func() error {
			lacks, err := lookAtHostPath(m.config.HostRoot, path, wanted)
			if lacks {
				err = canBeMade(m.config.HostRoot, path, wanted)
			}
			return err
		})
		if err != nil {
			return setUpFailed(volume.Name, err)
		}
	}
	for c := range podspec.InitAndMain(pod) {
		for _, mount := range c.VolumeMounts {
			volume, _ := m.find(pod, mount.Name)
			if volume == nil || volume.HostPath == nil || mount.SubPath == "" {
				continue
			}
			path := volume.HostPath.Path
			if err := m.patience.Do(ctx, path, func() error { return m.lookAtSubPath(path, mount.SubPath) }); err != nil {
				return fmt.Errorf("container %s: subPath %q of volume %q: %w", c.Name, mount.SubPath, mount.Name, err)
			}
		}
	}
	return nil
}

// canBeMade looks whether a file or a directory can be made where there is none: a file in a directory, and a directory
// with those above it.
func canBeMade(node hostfs.Root, path string, wanted corev1.HostPathType) error {
	above := filepath.Dir(path)
	info, err := node.Stat(above)
	for errors.Is(err, fs.ErrNotExist) && wanted == corev1.HostPathDirectoryOrCreate && above != "/" {
		above = filepath.Dir(above)
		info, err = node.Stat(above)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", above)
	}
	return err
}

// lookAtSubPath looks whether a path below that of a volume can be opened or made.
func (m *Manager) lookAtSubPath(volumePath, subPath string) error {
	root, err := m.config.HostRoot.Open(volumePath, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return orMissing(err)
	}
	file, err := pathrs.OpenatInRoot(root, subPath)
	if err == nil {
		err = file.Close()
	}
	return errors.Join(orMissing(err), root.Close())
}

// orMissing is nil for what is not there: a start makes it.
func orMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
