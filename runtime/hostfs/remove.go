// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxOpenDirs bounds the directories that are open at a time.
	maxOpenDirs = 32
	// namesAtOnce bounds how many names of a directory are held in memory.
	namesAtOnce = 512
	// movedName begins the names of directories that were moved up.
	movedName = ".removing-"
)

// RemoveTree removes name in dir and all below it. It follows no link and crosses
// no mount: one that is left is an error and what is behind it stays. However deep
// the tree is, few directories are open at a time: what lies deeper is moved to its
// top, and removed from there. A tree that is not there is no error.
func RemoveTree(ctx context.Context, dir, name string) error {
	parent, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) //nolint:gosec // a root of the configuration
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	removeErr := (&removal{}).remove(ctx, parent, name, 0)
	if removeErr != nil {
		removeErr = fmt.Errorf("remove %q: %w", filepath.Join(dir, name), removeErr)
	}
	return errors.Join(removeErr, parent.Close())
}

// removal is the removal of one tree.
type removal struct {
	// top is the directory at the top, where the deep ones are moved.
	top   *os.File
	moved int
}

// remove removes one entry of a directory; depth counts from the top of the tree.
func (r *removal) remove(ctx context.Context, parent *os.File, name string, depth int) error {
	if ctx.Err() != nil {
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
	if depth >= maxOpenDirs {
		return r.moveUp(at, name)
	}
	if err := r.empty(ctx, at, name, depth); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

// moveUp moves a directory to the top of the tree.
func (r *removal) moveUp(at int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(at, name, int(r.top.Fd()), movedName+strconv.Itoa(r.moved))
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR):
			// The name is taken; only an empty directory would be replaced.
		default:
			return &fs.PathError{Op: "renameat", Path: name, Err: err}
		}
	}
}

// empty removes what is in a directory.
func (r *removal) empty(ctx context.Context, at int, name string, depth int) error {
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
	if depth == 0 {
		r.top = dir
	}
	return errors.Join(r.emptyOpen(ctx, dir, depth), dir.Close())
}

// emptyOpen reads the directory until nothing is in it: entries may be moved to it
// meanwhile.
func (r *removal) emptyOpen(ctx context.Context, dir *os.File, depth int) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := dir.Readdirnames(namesAtOnce)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, child := range names {
			if err := r.remove(ctx, dir, child, depth+1); err != nil {
				return err
			}
		}
	}
}
