// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func groupText(pod *corev1.Pod) string {
	if group := fsGroup(pod); group != nil {
		return strconv.FormatInt(*group, 10)
	}
	return "none"
}

// setGroup gives the volume and all in it to the pod's fsGroup: group read and
// write, on directories execute and setgid too. A link is owned and never
// followed, and no path leads out of the volume: a container may still be writing
// there. (volume/volume_linux.go:changeFilePermission)
func setGroup(dir string, pod *corev1.Pod) error {
	group := fsGroup(pod)
	if group == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	walkErr := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		return gone(setEntryGroup(root, name, entry, int(*group)))
	})
	return errors.Join(walkErr, root.Close())
}

func setEntryGroup(root *os.Root, name string, entry fs.DirEntry, group int) error {
	if err := root.Lchown(name, -1, group); err != nil {
		return err
	}
	if entry.Type()&fs.ModeSymlink != 0 {
		return nil
	}
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	mode := info.Mode() | 0o660
	if info.IsDir() {
		mode |= fs.ModeSetgid | 0o110
	}
	return root.Chmod(name, mode)
}

// gone is no error: what a container removes meanwhile needs no group.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
