// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
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
// there. Each step is bounded, the whole is not: a volume can be large.
// (volume/volume_linux.go:changeFilePermission)
func (m *Manager) setGroup(ctx context.Context, dir string, pod *corev1.Pod) error {
	group := fsGroup(pod)
	if group == nil {
		return nil
	}
	root, err := hostfs.Ask(ctx, m.patience, dir, func() (*os.Root, error) { return os.OpenRoot(dir) },
		func(root *os.Root) { _ = root.Close() })
	if err != nil {
		return err
	}
	files := boundedFS{FS: root.FS(), ctx: ctx, patience: m.patience, dir: dir}
	walkErr := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		return gone(m.patience.Do(ctx, dir, func() error { return setEntryGroup(root, name, entry, int(*group)) }))
	})
	return errors.Join(walkErr, root.Close())
}

// boundedFS bounds the steps of a walk, for fs.WalkDir.
type boundedFS struct {
	fs.FS
	ctx      context.Context // the methods of an fs.FS get none
	patience *hostfs.Patience
	dir      string
}

func (f boundedFS) Stat(name string) (fs.FileInfo, error) {
	return hostfs.Ask(f.ctx, f.patience, f.dir, func() (fs.FileInfo, error) { return fs.Stat(f.FS, name) }, func(fs.FileInfo) {})
}

func (f boundedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return hostfs.Ask(f.ctx, f.patience, f.dir, func() ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) }, func([]fs.DirEntry) {})
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
