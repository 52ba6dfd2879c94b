// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

const emptyDirMode = fs.ModePerm

// setUpEmptyDir makes an emptyDir: a directory on the disk, or a tmpfs. sizeLimit
// bounds a tmpfs; on the disk it is measured, and a pod that is over is evicted. fsGroup is set when the volume is
// new or the group has changed. (volume/emptydir/empty_dir.go:SetUpAt)
func (m *Manager) setUpEmptyDir(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	medium := volume.EmptyDir.Medium
	inMemory := medium == corev1.StorageMediumMemory
	if !inMemory && medium != corev1.StorageMediumDefault {
		return fmt.Errorf("unknown storage medium %q", medium)
	}
	dir := m.emptyDir(pod.UID, volume.Name)
	mounts, err := hostfs.MountsAt(dir)
	if err != nil {
		return err
	}
	var sizeErr error
	switch {
	case inMemory:
		sizeErr, err = m.setUpTmpfs(ctx, pod, volume.EmptyDir, dir, mounts)
		if err == nil {
			err = m.seenByTheNode(dir)
		}
		if err != nil {
			return err
		}
	case hasTmpfs(mounts):
		// The template had it in memory; a container that still runs keeps it.
		if err := m.patience.DetachBelow(ctx, dir); err != nil {
			return err
		}
	}
	if err := m.giveAway(ctx, pod, volume, dir, hasTmpfs(mounts) == inMemory); err != nil {
		return err
	}
	return sizeErr
}

// giveAway opens the volume to its pod, once: what the workload makes of its mode
// and group stays. The marker counts only for what was mounted when it was written.
// A container may have mounted a file system there that does not answer.
func (m *Manager) giveAway(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, dir string, same bool) error {
	marker := m.marker(pod.UID, volume.Name)
	want := groupText(pod) + " " + string(volume.EmptyDir.Medium)
	isNew, err := hostfs.Ask(ctx, m.patience, dir, func() (bool, error) {
		was, err := os.ReadFile(marker) //nolint:gosec // below the pod's directory
		if err == nil && string(was) == want && same && isDir(dir) {
			return false, nil
		}
		return true, makeWorldDir(dir)
	}, func(bool) {})
	if err != nil || !isNew {
		return err
	}
	if err := m.setGroup(ctx, dir, pod); err != nil {
		return fmt.Errorf("set fsGroup: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(marker), podDirMode); err != nil {
		return err
	}
	return os.WriteFile(marker, []byte(want), 0o600)
}

// EmptyDirs is the directory with those of a pod, whether it is there or not.
func (m *Manager) EmptyDirs(uid types.UID) string { return filepath.Join(m.podDir(uid), emptyDirsDir) }

func (m *Manager) marker(uid types.UID, volume string) string {
	return filepath.Join(m.podDir(uid), markersDir, volume, "ready")
}

// hasTmpfs says that a tmpfs is mounted, whatever lies on it.
func hasTmpfs(mounts []*mountinfo.Info) bool {
	return slices.ContainsFunc(mounts, isTmpfs)
}

// isTmpfs says that a mount is a whole tmpfs, as the shim mounts it.
func isTmpfs(mount *mountinfo.Info) bool {
	return mount.FSType == "tmpfs" && mount.Source == "tmpfs" && mount.Root == "/"
}

// makeWorldDir makes a directory with mode 0777 whatever the umask is.
func makeWorldDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), podDirMode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, emptyDirMode)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
