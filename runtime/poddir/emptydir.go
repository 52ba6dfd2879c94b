// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const emptyDirMode = fs.ModePerm

// setUpEmptyDir makes an emptyDir: a directory on the disk, or a tmpfs. sizeLimit
// bounds a tmpfs; on the disk nothing is enforced (the kubelet measures, and evicts
// a pod that is over; the shim has no eviction). fsGroup is set when the volume is
// new or the group has changed. (volume/emptydir/empty_dir.go:SetUpAt)
func (m *Manager) setUpEmptyDir(pod *corev1.Pod, volume *corev1.Volume) error {
	dir := m.emptyDir(pod.UID, volume.Name)
	mounted, err := isMounted(dir)
	if err != nil {
		return err
	}
	marker := filepath.Join(m.podDir(pod.UID), emptyDirsMetaDir, volume.Name, "ready")
	inMemory := volume.EmptyDir.Medium == corev1.StorageMediumMemory
	switch {
	case !inMemory && volume.EmptyDir.Medium != corev1.StorageMediumDefault:
		return fmt.Errorf("unknown storage medium %q", volume.EmptyDir.Medium)
	case inMemory:
		err = m.setUpTmpfs(pod, volume.EmptyDir, dir, mounted)
	case mounted:
		// The template had it in memory; a container that still runs keeps it.
		err = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if err != nil {
		return err
	}
	want := groupText(pod) + " " + string(volume.EmptyDir.Medium)
	was, err := os.ReadFile(marker) //nolint:gosec // below the pod's directory
	if err == nil && string(was) == want && mounted == inMemory && isDir(dir) {
		return nil
	}
	if err := makeWorldDir(dir); err != nil {
		return err
	}
	if err := setGroup(dir, pod); err != nil {
		return fmt.Errorf("set fsGroup: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(marker), podDirMode); err != nil {
		return err
	}
	return os.WriteFile(marker, []byte(want), 0o600)
}

func isMounted(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for a mount: %w", err)
	}
	return mounted && err == nil, nil
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

// setUpTmpfs mounts a tmpfs, or changes the size of the one that is there.
func (m *Manager) setUpTmpfs(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, dir string, mounted bool) error {
	size := m.tmpfsSize(pod, source)
	options := "mode=0777"
	if size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	if mounted {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("read the size of the tmpfs: %w", err)
		}
		if size == 0 || sameSize(size, fs) {
			return nil
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size="+strconv.FormatInt(size, 10)); err != nil {
			return fmt.Errorf("change the size of the tmpfs to %d bytes: %w", size, err)
		}
		return nil
	}
	if err := makeWorldDir(dir); err != nil {
		return err
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.4 has no noswap
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

// sameSize: a tmpfs has whole pages.
func sameSize(size int64, fs unix.Statfs_t) bool {
	page := fs.Bsize
	return page > 0 && (size+page-1)/page == int64(min(fs.Blocks, math.MaxInt64))
}

// tmpfsSize in bytes is the least of the node's memory, the pod's memory limit and
// sizeLimit; 0 is the kernel's default. (empty_dir.go:calculateEmptyDirMemorySize)
func (m *Manager) tmpfsSize(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource) int64 {
	var size int64
	bound := func(limit int64) {
		if limit > 0 && (size == 0 || limit < size) {
			size = limit
		}
	}
	bound(m.capacity.Memory().Value())
	bound(podLimits(pod).memory)
	if source.SizeLimit != nil {
		bound(source.SizeLimit.Value())
	}
	return size
}
