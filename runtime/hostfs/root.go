// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// Root is the node's file system as this process sees it: its own when empty,
// else a directory where the node's root is mounted. There, paths are resolved
// with that directory as the root, symbolic links of the node included.
type Root string

// Open opens what lies at a path of the node.
func (r Root) Open(path string, flags int) (*os.File, error) {
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

// Stat follows symbolic links.
func (r Root) Stat(path string) (fs.FileInfo, error) {
	if r == "" {
		return os.Stat(path)
	}
	handle, err := r.Open(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	info, err := handle.Stat()
	return info, errors.Join(err, handle.Close())
}

// Statfs says what the file system has on which a path lies.
func (r Root) Statfs(path string) (unix.Statfs_t, error) {
	var s unix.Statfs_t
	handle, err := r.Open(path, unix.O_PATH)
	if err != nil {
		return s, err
	}
	err = unix.Fstatfs(int(handle.Fd()), &s)
	if err = errors.Join(err, handle.Close()); err != nil {
		return s, fmt.Errorf("statfs %q: %w", path, err)
	}
	return s, nil
}

// ReadFile reads a file of the node whole.
func (r Root) ReadFile(path string) ([]byte, error) {
	if r == "" {
		return os.ReadFile(path) //nolint:gosec // a path of the node
	}
	file, err := r.Open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(FDPath(file))
	return data, errors.Join(err, file.Close())
}

// MkdirAll makes a directory of the node and its parents, with mode 0755.
func (r Root) MkdirAll(path string) error {
	if r == "" {
		return os.MkdirAll(path, 0o755) //nolint:gosec // the mode the API promises
	}
	return pathrs.MkdirAll(string(r), path, 0o755)
}

// MakeFile makes a file of the node, with mode 0644, unless there is one.
func (r Root) MakeFile(path string) error {
	if r == "" {
		f, err := os.OpenFile(path, os.O_CREATE, 0o644) //nolint:gosec // the path and mode that the template asks for
		if err != nil {
			return err
		}
		return f.Close()
	}
	dir, err := r.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("create %q: %w", path, err)
	}
	return unix.Close(fd)
}

// FDPath is a path to an open file, whatever its name has become.
func FDPath(f *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
}

// MakeRoot makes a directory with its parents and resolves the symbolic links in
// its path, so that mounts below it can be found in the mount table.
func MakeRoot(path string, mode os.FileMode) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("make directory %q: path is not absolute", path)
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("resolve directory: %w", err)
	}
	return resolved, nil
}

// PathPart refuses a name that could lead out of a directory when it becomes a
// part of a path.
func PathPart(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q cannot be part of a path", name)
	}
	return nil
}
