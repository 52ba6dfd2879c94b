// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// setUpHostPath checks the path once for each process of the shim, as the kubelet
// does: a file that goes away later does not keep a container from restarting. A
// network file system that does not answer is waited for only so long.
func (m *Manager) setUpHostPath(ctx context.Context, on *pass, volume *corev1.Volume, _ *kind) error {
	source := volume.HostPath
	if was, ok := on.p.checked[volume.Name]; ok && was == hostPathKey(source) {
		return nil
	}
	err := m.patience.Do(ctx, source.Path, func() error {
		return checkHostPath(m.config.HostRoot, source.Path, hostPathType(source))
	})
	if errors.Is(err, hostfs.ErrHung) {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	if err != nil {
		return err
	}
	on.p.checked[volume.Name] = hostPathKey(source)
	return nil
}

func hostPathType(source *corev1.HostPathVolumeSource) corev1.HostPathType {
	if source.Type == nil {
		return corev1.HostPathUnset
	}
	return *source.Type
}

func hostPathKey(source *corev1.HostPathVolumeSource) string {
	return string(hostPathType(source)) + ":" + source.Path
}

// checkHostPath checks what lies at the path, symbolic links followed, and makes
// it for the two types that say so. (volume/hostpath/host_path.go:checkTypeInternal)
func checkHostPath(node hostfs.Root, path string, wanted corev1.HostPathType) error {
	lacks, err := lookAtHostPath(node, path, wanted)
	switch {
	case err != nil || !lacks:
		return err
	case wanted == corev1.HostPathDirectoryOrCreate:
		return node.MkdirAll(path)
	default:
		return node.MakeFile(path)
	}
}

// lookAtHostPath checks what lies at the path, and reports whether it is still to be made.
func lookAtHostPath(node hostfs.Root, path string, wanted corev1.HostPathType) (lacks bool, err error) {
	if wanted == corev1.HostPathUnset {
		return false, nil
	}
	mode, name, err := hostPathMode(wanted)
	if err != nil {
		return false, err
	}
	info, err := node.Stat(path)
	switch {
	case err != nil && (wanted == corev1.HostPathDirectoryOrCreate || wanted == corev1.HostPathFileOrCreate):
		return true, nil
	case err != nil, info.Mode().Type() != mode:
		return false, fmt.Errorf("hostPath type check failed: %s is not a %s", path, name)
	default:
		return false, nil
	}
}

// hostPathMode is the type of file that a type asks for, and its name.
func hostPathMode(wanted corev1.HostPathType) (mode fs.FileMode, name string, err error) {
	switch wanted {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return fs.ModeDir, "directory", nil
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return 0, "file", nil
	case corev1.HostPathSocket:
		return fs.ModeSocket, "socket file", nil
	case corev1.HostPathCharDev:
		return fs.ModeDevice | fs.ModeCharDevice, "character device", nil
	case corev1.HostPathBlockDev:
		return fs.ModeDevice, "block device", nil
	case corev1.HostPathUnset:
	}
	return 0, "", fmt.Errorf("%s is an invalid volume type", wanted)
}
