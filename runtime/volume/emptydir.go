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

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// Modes of volumes before a workload changes them. Those of file systems in memory are
// the kernel's, which the kubelet leaves as they are.
const (
	worldMode  = fs.ModePerm
	memoryMode = fs.ModePerm | fs.ModeSticky
	hugeMode   = fs.FileMode(0o755)
)

// setUpEmptyDir makes an emptyDir: a directory on the disk, a tmpfs, or huge pages.
// sizeLimit bounds a tmpfs; on the disk it is measured, and a pod that is over is evicted.
// fsGroup is set when the volume is new or the group has changed. (volume/emptydir/empty_dir.go:SetUpAt)
func (m *Manager) setUpEmptyDir(ctx context.Context, on *pass, volume *corev1.Volume, k *kind) error {
	medium := volume.EmptyDir.Medium
	want, err := backingOf(on.pod, medium)
	if err != nil {
		return err
	}
	dir := m.dir(on.pod.UID, k, volume.Name)
	mounts, err := hostfs.MountsAt(dir)
	if err != nil {
		return err
	}
	ours := oursIn(mounts)
	same := want.matches(ours)
	if !same && ours != nil {
		// The template had it on another medium; a container that still runs keeps it.
		if err := m.patience.DetachBelow(ctx, dir); err != nil {
			return err
		}
		mounts = nil
	}
	var sizeErr error
	if want.fstype != "" {
		if sizeErr, err = m.setUpBacking(ctx, on.pod, volume.EmptyDir, want, dir, mounts); err != nil {
			return err
		}
		if err := m.seenByTheNode(dir); err != nil {
			return err
		}
	}
	if err := m.giveAway(ctx, on.pod, volume, k, want.mode, same); err != nil {
		return err
	}
	return sizeErr
}

// backing is the file system that an emptyDir is on; without a type it is the disk's.
type backing struct {
	fstype string
	mode   fs.FileMode
	// page is the size of its pages in bytes, for huge ones.
	page int64
}

func backingOf(pod *corev1.Pod, medium corev1.StorageMedium) (backing, error) {
	switch {
	case medium == corev1.StorageMediumDefault:
		return backing{mode: worldMode}, nil
	case medium == corev1.StorageMediumMemory:
		return backing{fstype: tmpfs, mode: memoryMode}, nil
	case isHugePages(medium):
		page, err := pageSize(pod, medium)
		return backing{fstype: hugetlbfs, mode: hugeMode, page: page}, err
	}
	return backing{}, fmt.Errorf("unknown storage medium %q", medium)
}

// matches says that a mount of the shim, or none, is the backing.
func (b backing) matches(ours *mountinfo.Info) bool {
	if ours == nil {
		return b.fstype == ""
	}
	return ours.FSType == b.fstype && (b.fstype != hugetlbfs || pageOf(ours) == b.page)
}

// oursIn is the file system that the shim has mounted, whatever a container may have
// mounted over it; nil when there is none.
func oursIn(mounts []*mountinfo.Info) *mountinfo.Info {
	for _, mount := range mounts {
		if isTmpfs(mount) || isHugetlbfs(mount) {
			return mount
		}
	}
	return nil
}

// setUpBacking mounts a file system, or changes the size of the one that is there.
func (m *Manager) setUpBacking(ctx context.Context, pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, want backing, dir string, mounts []*mountinfo.Info) (sizeErr, err error) {
	switch {
	case len(mounts) > 0 && oursIn(mounts) == nil:
		return nil, foreignMount(mounts)
	case want.fstype == tmpfs:
		return m.setUpTmpfs(ctx, m.tmpfsSize(pod, source), dir, mounts)
	case len(mounts) == 0:
		return nil, m.patience.Do(ctx, dir, func() error { return mountHugePages(dir, want.page) })
	}
	return nil, nil
}

func foreignMount(mounts []*mountinfo.Info) error {
	return fmt.Errorf("a mount that the shim did not make is in its place (%s)", mounts[len(mounts)-1].FSType)
}

// giveAway opens the volume to its pod, once: what the workload makes of its mode
// and group stays. The marker counts only for what was mounted when it was written.
// A container may have mounted a file system there that does not answer.
func (m *Manager) giveAway(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, k *kind, mode fs.FileMode, same bool) error {
	dir, marker := m.dir(pod.UID, k, volume.Name), filepath.Join(m.marks(pod.UID, k, volume.Name), "ready")
	want := groupText(pod) + " " + string(volume.EmptyDir.Medium)
	isNew, err := hostfs.Ask(ctx, m.patience, dir, func() (bool, error) {
		was, err := os.ReadFile(marker) //nolint:gosec // below the pod's directory
		if err == nil && string(was) == want && same && isDir(dir) {
			return false, nil
		}
		return true, makeDir(dir, mode)
	}, func(bool) {})
	if err != nil || !isNew {
		return err
	}
	if err := m.setGroup(ctx, dir, pod); err != nil {
		return fmt.Errorf("set fsGroup: %w", err)
	}
	return writeMark(marker, []byte(want))
}

// writeMark notes something about a volume.
func writeMark(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), podDirMode); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// makeDir makes a directory with a mode that does not depend on the umask.
func makeDir(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), podDirMode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, mode)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
