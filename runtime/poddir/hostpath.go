// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// setUpHostPath checks the path once for each process of the shim, as the kubelet
// does: a file that goes away later does not keep a container from restarting.
func (m *Manager) setUpHostPath(pod *corev1.Pod, volume *corev1.Volume) error {
	source, done := volume.HostPath, m.remembered(pod.UID).hostPaths
	if was, ok := done[volume.Name]; ok && was == hostPathKey(source) {
		return nil
	}
	if err := checkHostPath(source.Path, hostPathType(source)); err != nil {
		return err
	}
	done[volume.Name] = hostPathKey(source)
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
func checkHostPath(path string, wanted corev1.HostPathType) error {
	info, statErr := os.Stat(path)
	if statErr != nil {
		switch wanted {
		case corev1.HostPathDirectoryOrCreate:
			return os.MkdirAll(path, 0o755)
		case corev1.HostPathFileOrCreate:
			return makeFile(path)
		}
	}
	var is bool
	var name string
	switch wanted {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		is, name = statErr == nil && info.IsDir(), "directory"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		is, name = statErr == nil && info.Mode().IsRegular(), "file"
	case corev1.HostPathSocket:
		is, name = statErr == nil && info.Mode().Type() == fs.ModeSocket, "socket file"
	case corev1.HostPathCharDev:
		is, name = statErr == nil && info.Mode().Type() == fs.ModeDevice|fs.ModeCharDevice, "character device"
	case corev1.HostPathBlockDev:
		is, name = statErr == nil && info.Mode().Type() == fs.ModeDevice, "block device"
	default:
		return fmt.Errorf("%s is an invalid volume type", wanted)
	}
	if !is {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", path, name)
	}
	return nil
}

func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
