// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Bounds of the names of files. (volume/util/atomic_writer.go:validatePath)
const (
	maxName = 255
	maxPath = 4096
)

// What a group of the pod gets on top. (volume/volume_linux.go:changeFilePermission)
const (
	groupFile fs.FileMode = 0o440
	groupDir  fs.FileMode = 0o550 | fs.ModeSetgid
)

const (
	dirMode    fs.FileMode = 0o755
	permission fs.FileMode = 0o777
)

// Content is what a directory shows.
type Content struct {
	// Files by their path in the directory.
	Files map[string]File
	// Mode of the directory itself.
	Mode fs.FileMode
	// Group owns everything and may read it; nil leaves it to the process's group.
	Group *int64
	// Mountpoints are directories that stand beside the files, so that something can
	// be mounted there although containers cannot write to the directory. What of the
	// files has the same first part of its path is not seen.
	Mountpoints []string
}

// File is one file.
type File struct {
	Data []byte
	// Mode is its permission bits.
	Mode int32
	// Owner is its user; nil is the process's.
	Owner *int64
}

// cleaned returns the files by their clean paths. Of paths that are the same when clean, the last
// in the order of the paths given wins.
func cleaned(files map[string]File) (map[string]File, error) {
	clean := make(map[string]File, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := check(name); err != nil {
			return nil, err
		}
		clean[path.Clean(name)] = files[name]
	}
	for name := range clean {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, isFile := clean[dir]; isFile {
				return nil, fmt.Errorf("invalid path: %s is a file and a directory", dir)
			}
		}
	}
	return clean, nil
}

// check refuses what would lie outside of the directory, or where the layout has its
// own names.
func check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("invalid path: must not be empty: %q", name)
	case path.IsAbs(name):
		return fmt.Errorf("invalid path: must be relative path: %s", name)
	case len(name) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("invalid path: must not contain a NUL: %q", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return fmt.Errorf("invalid path: must not contain '..': %s", name)
		}
		if len(part) > maxName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	switch clean := path.Clean(name); {
	case clean == ".":
		return fmt.Errorf("invalid path: must name a file: %s", name)
	case strings.HasPrefix(clean, ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", name)
	}
	return nil
}

// firstPart is the part of a path that stands in the directory itself.
func firstPart(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

func (f File) permission() fs.FileMode { return fs.FileMode(f.Mode) & permission }

func (f File) owner() int {
	if f.Owner == nil {
		return os.Geteuid()
	}
	return int(*f.Owner)
}

func (c *Content) group() int {
	if c.Group == nil {
		return os.Getegid()
	}
	return int(*c.Group)
}

func (c *Content) fileMode(f File) fs.FileMode {
	if c.Group == nil {
		return f.permission()
	}
	return f.permission() | groupFile
}

func (c *Content) dirMode(mode fs.FileMode) fs.FileMode {
	if c.Group == nil {
		return mode
	}
	return mode | groupDir
}
