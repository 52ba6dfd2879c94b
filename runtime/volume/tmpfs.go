// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// sizeError says that a tmpfs keeps its size because its content does not fit into
// the new one. Nothing needs to wait for it.
type sizeError struct {
	was, used, wanted int64 // bytes
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("the size stays %s until its content (%s) fits into the new limit of %s",
		quantity(e.was), quantity(e.used), quantity(e.wanted))
}

func quantity(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}

// tmpfs is the type of the file systems in memory, and the source that the shim names.
const tmpfs = "tmpfs"

// isTmpfs says that a mount is a whole tmpfs, as the shim mounts it.
func isTmpfs(mount *mountinfo.Info) bool {
	return mount.FSType == tmpfs && mount.Source == tmpfs && mount.Root == "/"
}

// setUpTmpfs mounts a tmpfs, or changes the size of the one that is there. A
// smaller size that its content does not fit into is a sizeErr: the old one stays.
func (m *Manager) setUpTmpfs(ctx context.Context, size int64, dir string, mounts []*mountinfo.Info) (sizeErr, err error) {
	if len(mounts) == 0 {
		return nil, m.patience.Do(ctx, dir, func() error { return mountTmpfs(dir, memoryMode, size) })
	}
	if !isTmpfs(mounts[len(mounts)-1]) {
		return nil, nil // a container mounted something on it; its size cannot be reached
	}
	return hostfs.Ask(ctx, m.patience, dir, func() (error, error) { return resizeTmpfs(dir, size) }, func(error) {})
}

func mountTmpfs(dir string, mode fs.FileMode, size int64) error {
	options := fmt.Sprintf("mode=%#o", syscallMode(mode))
	if size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	if err := makeDir(dir, worldMode); err != nil {
		return err
	}
	err := unix.Mount(tmpfs, dir, tmpfs, 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.4 has no noswap
		err = unix.Mount(tmpfs, dir, tmpfs, 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

// syscallMode is a mode as the kernel has it.
func syscallMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return bits
}

func resizeTmpfs(dir string, size int64) (sizeErr, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return nil, fmt.Errorf("read the size of the tmpfs: %w", err)
	}
	if size == 0 || sameSize(size, stat) {
		return nil, nil
	}
	err = unix.Mount("", dir, "", unix.MS_REMOUNT, "size="+strconv.FormatInt(size, 10))
	used := int64(stat.Blocks-stat.Bfree) * stat.Bsize
	if errors.Is(err, unix.EINVAL) && used > size {
		return &sizeError{was: int64(stat.Blocks) * stat.Bsize, used: used, wanted: size}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("change the size of the tmpfs to %d bytes: %w", size, err)
	}
	return nil, nil
}

// sameSize: a tmpfs has whole pages.
func sameSize(size int64, stat unix.Statfs_t) bool {
	page := stat.Bsize
	return page > 0 && (size+page-1)/page == int64(min(stat.Blocks, math.MaxInt64))
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
	bound(m.config.NodeMemory)
	bound(m.config.PodMemory(pod))
	if source.SizeLimit != nil {
		bound(source.SizeLimit.Value())
	}
	return size
}
