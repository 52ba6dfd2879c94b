// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Remove takes the pod's place away: mounts, directories, logs, cgroup. It kills
// nothing: what is still in use is an error, and the call is to be repeated. A pod
// that has no place is no error. Namespace and name may be empty; the logs are
// found by the UID then.
func (m *Manager) Remove(ctx context.Context, pod Identity) error {
	if err := pod.validate(); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	if err := m.remove(ctx, pod); err != nil {
		return fmt.Errorf("remove what is left of pod %q: %w", pod.UID, err)
	}
	m.forget(pod.UID)
	return nil
}

func (m *Manager) remove(ctx context.Context, pod Identity) error {
	if err := unmountBelow(m.podDir(pod.UID)); err != nil {
		return err
	}
	if err := removeTree(ctx, m.config.RootDir, string(pod.UID)); err != nil {
		return err
	}
	logs, err := m.logDirectories(pod.UID)
	if err != nil {
		return err
	}
	for _, name := range logs {
		if err := removeTree(ctx, m.config.LogRoot, name); err != nil {
			return err
		}
	}
	return m.removeCgroup(ctx, pod.UID)
}

// logDirectories are the names of the log directories that belong to a UID.
func (m *Manager) logDirectories(uid types.UID) ([]string, error) {
	entries, err := os.ReadDir(m.config.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if id, ok := parseLogDirectory(entry.Name()); ok && id.UID == uid {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// parseLogDirectory takes <namespace>_<name>_<uid> apart; neither of the first
// two can hold an underscore.
func parseLogDirectory(name string) (Identity, bool) {
	parts := strings.SplitN(name, "_", 3)
	if len(parts) != 3 || parts[2] == "" {
		return Identity{}, false
	}
	return Identity{Namespace: parts[0], Name: parts[1], UID: types.UID(parts[2])}, true
}

// unmountBelow unmounts everything at dir and below it, the deepest and the latest
// mount first.
func unmountBelow(dir string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	slices.Reverse(mounts) // of mounts on one another the last is on top
	slices.SortStableFunc(mounts, func(a, b *mountinfo.Info) int {
		return strings.Count(b.Mountpoint, "/") - strings.Count(a.Mountpoint, "/")
	})
	for _, mount := range mounts {
		if err := unix.Unmount(mount.Mountpoint, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %q: %w", mount.Mountpoint, err)
		}
	}
	return nil
}

// removeTree removes name in dir and all below it. It follows no link and crosses
// no mount: one that is left is an error and what is behind it stays.
func removeTree(ctx context.Context, dir, name string) error {
	parent, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) //nolint:gosec // a root of the configuration
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	removeErr := removeAt(ctx, parent, name)
	if removeErr != nil {
		removeErr = fmt.Errorf("remove %q: %w", filepath.Join(dir, name), removeErr)
	}
	return errors.Join(removeErr, parent.Close())
}

func removeAt(ctx context.Context, parent *os.File, name string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	at := int(parent.Fd())
	err := unix.Unlinkat(at, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	if err := emptyAt(ctx, at, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

func emptyAt(ctx context.Context, at int, name string) error {
	fd, err := unix.Openat2(at, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	names, err := dir.Readdirnames(-1)
	for _, child := range names {
		if err = removeAt(ctx, dir, child); err != nil {
			break
		}
	}
	return errors.Join(err, dir.Close())
}
