// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// makeMountpoints makes the directories for mounts. A link to files gives way to one.
// (volume/util/nested_volumes.go:MakeNestedMountpoints)
func (w *writer) makeMountpoints() error {
	for _, name := range slices.Sorted(slices.Values(w.content.Mountpoints)) {
		if err := check(name); err != nil {
			return err
		}
		clean := path.Clean(name)
		if w.isLink(firstPart(clean)) {
			if err := w.dir.Remove(firstPart(clean)); err != nil {
				return err
			}
		}
		at := ""
		for part := range strings.SplitSeq(clean, "/") {
			at = path.Join(at, part)
			if err := w.makeDir(at); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}

// link makes the links to the files. A link belongs to the owner of the first file that
// it leads to: in a directory with the sticky bit the kernel lets only that user follow it.
func (w *writer) link() error {
	owners := map[string]int{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(w.content.Files))) {
		owners[firstPart(name)] = w.content.Files[name].owner()
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		info, err := w.dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = w.dir.Symlink(path.Join(dataLink, name), name); err == nil {
				info, err = w.dir.Lstat(name)
			}
		}
		if err != nil {
			return err
		}
		if uid, gid := ids(info); info.Mode()&fs.ModeSymlink == 0 || uid == owners[name] && gid == w.content.group() {
			continue
		}
		if err := w.dir.Lchown(name, owners[name], w.content.group()); err != nil {
			return err
		}
	}
	return nil
}

// removeOld takes away the links to files that are gone and all versions but the
// current one, also those that a crash has left.
func (w *writer) removeOld(ctx context.Context) error {
	names, err := namesIn(w.dir, ".")
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for name := range w.content.Files {
		wanted[firstPart(name)] = true
	}
	var errs []error
	for _, name := range names {
		switch {
		case name == dataLink, name == w.current, wanted[name]:
		case isVersion(name):
			errs = append(errs, w.remove(ctx, name))
		case w.isLink(name):
			errs = append(errs, w.dir.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// isLink says that an entry of the directory is a link that this package has made.
func (w *writer) isLink(name string) bool {
	to, err := w.dir.Readlink(name)
	return err == nil && to == path.Join(dataLink, name)
}

// remove follows no link and crosses no mount.
func (w *writer) remove(ctx context.Context, name string) error {
	dir, err := w.dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(hostfs.RemoveTree(ctx, hostfs.FDPath(dir), name), dir.Close())
}

func namesIn(root *os.Root, name string) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	return names, errors.Join(err, dir.Close())
}
