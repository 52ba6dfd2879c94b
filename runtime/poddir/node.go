// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// nodeRoot is the node's file system as this process sees it: its own when empty,
// else a directory where the node's root is mounted. There, paths are resolved
// with that directory as the root, symbolic links of the node included.
type nodeRoot string

// open opens what lies at a path of the node.
func (r nodeRoot) open(path string, flags int) (*os.File, error) {
	if r == "" {
		return os.OpenFile(path, flags|unix.O_CLOEXEC, 0) //nolint:gosec // a path of the node, named by a template or a flag
	}
	handle, err := pathrs.OpenInRoot(string(r), path)
	if err != nil || flags&unix.O_PATH != 0 {
		return handle, err
	}
	file, err := pathrs.Reopen(handle, flags|unix.O_CLOEXEC)
	return file, errors.Join(err, handle.Close())
}

func (r nodeRoot) stat(path string) (fs.FileInfo, error) {
	if r == "" {
		return os.Stat(path)
	}
	handle, err := r.open(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	info, err := handle.Stat()
	return info, errors.Join(err, handle.Close())
}

func (r nodeRoot) readFile(path string) ([]byte, error) {
	if r == "" {
		return os.ReadFile(path) //nolint:gosec // a path of the node
	}
	file, err := r.open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(fdPath(file))
	return data, errors.Join(err, file.Close())
}

func (r nodeRoot) mkdirAll(path string) error {
	if r == "" {
		return os.MkdirAll(path, 0o755) //nolint:gosec // the mode the API promises
	}
	return pathrs.MkdirAll(string(r), path, 0o755)
}

func (r nodeRoot) makeFile(path string) error {
	if r == "" {
		return makeFile(path)
	}
	dir, err := r.open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("create %q: %w", path, err)
	}
	return unix.Close(fd)
}
