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
	"strconv"
	"strings"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// SubPath is one mount of a container that shows a part of a volume.
type SubPath struct {
	PodUID    types.UID
	Volume    string
	Container string
	// Index of the mount in the container's template.
	Index int
	// VolumePath is where the volume lies on the node, Path what to show of it.
	VolumePath, Path string
	Propagation      corev1.MountPropagationMode
}

// BindSubPath makes the subPath of a volume safe to mount: what a container may
// write to can become a symbolic link at any moment. The path is resolved with the
// volume as its root (openat2 RESOLVE_IN_ROOT: a link that points out of the volume
// ends up inside), and the file it led to is bound, by its descriptor, to a path in
// the pod's directory that no container can write to. The runtime gets that path.
// Directories that are missing are made with the mode of the volume's root. What is
// mounted on the bind gets back to the volume with propagation Bidirectional only.
// (volume/util/subpath)
func (m *Manager) BindSubPath(ctx context.Context, s SubPath) (string, error) {
	for _, name := range []string{string(s.PodUID), s.Volume, s.Container} {
		if err := hostfs.PathPart(name); err != nil {
			return "", err
		}
	}
	m.mu.Lock()
	p := m.entry(s.PodUID)
	m.mu.Unlock()
	p.busy.Lock()
	defer p.busy.Unlock()
	source, err := hostfs.Ask(ctx, m.patience, s.VolumePath, func() (*os.File, error) {
		return m.openSubPath(s.VolumePath, s.Path)
	}, func(f *os.File) { _ = f.Close() })
	if err != nil {
		return "", err
	}
	target := filepath.Join(m.podDir(s.PodUID), subPathsDir, s.Volume, s.Container, strconv.Itoa(s.Index))
	return target, m.bind(ctx, source, target, s.Propagation == corev1.MountPropagationBidirectional)
}

func (m *Manager) openSubPath(volumePath, subPath string) (*os.File, error) {
	root, err := m.config.HostRoot.Open(volumePath, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	file, err := openIn(root, subPath)
	if err = errors.Join(err, root.Close()); err != nil && file != nil {
		err, file = errors.Join(err, file.Close()), nil
	}
	return file, err
}

func openIn(root *os.File, subPath string) (*os.File, error) {
	file, err := pathrs.OpenatInRoot(root, subPath)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	parts := strings.Split(filepath.Clean(subPath), "/")
	for i := 1; i < len(parts); i++ {
		dir, err := openOrMake(root, filepath.Join(parts[:i]...))
		if err != nil {
			return nil, err
		}
		if err := dir.Close(); err != nil {
			return nil, err
		}
	}
	return openOrMake(root, subPath)
}

// openOrMake opens a path whose parent exists, or makes a directory with the mode of the root.
func openOrMake(root *os.File, path string) (*os.File, error) {
	file, err := pathrs.OpenatInRoot(root, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	info, err := root.Stat()
	if err != nil {
		return nil, err
	}
	dir, err := pathrs.MkdirAllHandle(root, path, info.Mode().Perm())
	if err != nil {
		return nil, err
	}
	// The umask may have taken what the volume's users need; setgid is inherited.
	made, err := dir.Stat()
	if err == nil {
		err = os.Chmod(hostfs.FDPath(dir), info.Mode()&(fs.ModePerm|fs.ModeSticky)|made.Mode()&fs.ModeSetgid)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// bind mounts source on target and closes it. A mount of an earlier instance is
// replaced, since the path may lead elsewhere by now; a container that has it keeps
// it.
func (m *Manager) bind(ctx context.Context, source *os.File, target string, shared bool) error {
	if err := m.clearTarget(ctx, source, target); err != nil {
		return errors.Join(err, source.Close())
	}
	err := m.patience.Do(ctx, target, func() error {
		return errors.Join(hostfs.Bind(source, target, shared), source.Close())
	})
	if err == nil {
		err = m.seenByTheNode(target)
	}
	if err != nil {
		return errors.Join(err, m.patience.DetachBelow(ctx, target))
	}
	return nil
}

func (m *Manager) clearTarget(ctx context.Context, source *os.File, target string) error {
	if err := m.patience.DetachBelow(ctx, target); err != nil {
		return err
	}
	info, err := hostfs.Ask(ctx, m.patience, target, source.Stat, func(fs.FileInfo) {})
	if err != nil {
		return err
	}
	return makeTarget(target, info.IsDir())
}

// seenByTheNode is an error when the shim runs in a container and the node does not
// have a mount that the shim made: containers would get what lies under it.
func (m *Manager) seenByTheNode(path string) error {
	there, known, err := m.config.HostRoot.Mounted(path)
	if err != nil || !known || there {
		return err
	}
	return fmt.Errorf("the mount on %q does not reach the node: the shim's state directory needs mount propagation Bidirectional", path)
}

func makeTarget(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), podDirMode); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir {
		return os.Mkdir(target, podDirMode)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640) //nolint:gosec // below the pod directory
	if err != nil {
		return err
	}
	return f.Close()
}
