// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

const (
	// namesAtOnce is how many entries of a directory one step looks at.
	namesAtOnce = 512
	// maxDepth bounds the directories that are open at a time.
	maxDepth = 256
	// maxLinked bounds the inodes with several names that are remembered, to count each once.
	maxLinked = 1 << 20
	// blockSize is the unit of st_blocks.
	blockSize = 512
)

// Errors of a walk that has not seen everything. The bounds are met again the next time.
var (
	errBound    = errors.New("not all is counted")
	errTooDeep  = fmt.Errorf("%w: directories more than %d levels deep", errBound, maxDepth)
	errTooMany  = fmt.Errorf("%w: more than %d hard links", errBound, maxLinked)
	errTooLong  = fmt.Errorf("%w: there is more than can be measured within %v", errBound, longest)
	errNotThere = errors.New("not there")
)

// walk adds up what is below a directory: each inode once, also one with several names, and
// nothing of other file systems. (kubelet volume/util/fs/fs.go:DiskUsage)
type walk struct {
	patience *hostfs.Patience
	key      string
	device   uint64
	linked   map[uint64]bool
	bytes    int64
	inodes   int64
	// failed is why something was not counted, nil if all was, bound which bound was met, and
	// hung that the file system does not answer.
	failed, bound error
	hung          bool
}

// result is what a walk has found.
type result struct {
	bytes  int64
	inodes int64
	device uint64
	// bound is which bound was met, nil for none: the rest is never counted.
	bound error
}

// entry is what a step finds.
type entry struct {
	name string
	stat unix.Stat_t
}

// du is what a file or a directory with all below it uses of the disk. With an error it is a
// part of that. One that is not there uses nothing.
func du(ctx context.Context, patience *hostfs.Patience, path string) (result, error) {
	w := &walk{patience: patience, key: path, linked: map[uint64]bool{}}
	top, err := hostfs.Ask(ctx, patience, path, func() (entry, error) { return statAt(unix.AT_FDCWD, path) }, func(entry) {})
	if err != nil {
		return result{}, notThere(err)
	}
	w.device = top.stat.Dev
	w.add(&top.stat)
	if top.stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		w.enter(ctx, unix.AT_FDCWD, path, 0)
	}
	return result{w.bytes, w.inodes, w.device, w.bound}, w.failed
}

func notThere(err error) error {
	if errors.Is(err, errNotThere) {
		return nil
	}
	return err
}

func statAt(at int, name string) (entry, error) {
	e := entry{name: name}
	err := unix.Fstatat(at, name, &e.stat, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if errors.Is(err, unix.ENOENT) {
		return e, errNotThere
	}
	if err != nil {
		return e, &fs.PathError{Op: "fstatat", Path: name, Err: err}
	}
	return e, nil
}

// add counts an inode.
func (w *walk) add(s *unix.Stat_t) {
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		if w.linked[s.Ino] {
			return
		}
		if len(w.linked) >= maxLinked {
			w.miss(errTooMany)
			return
		}
		w.linked[s.Ino] = true
	}
	w.bytes += s.Blocks * blockSize
	w.inodes++
}

// miss notes the first thing that was not counted.
func (w *walk) miss(err error) {
	w.hung = w.hung || errors.Is(err, hostfs.ErrHung)
	switch err = notThere(err); {
	case err == nil:
	case errors.Is(err, errBound):
		w.bound = cmp.Or(w.bound, err)
	default:
		w.failed = cmp.Or(w.failed, err)
	}
}

// enter counts what is in a directory.
func (w *walk) enter(ctx context.Context, at int, name string, depth int) {
	if depth >= maxDepth {
		w.miss(errTooDeep)
		return
	}
	dir, err := hostfs.Ask(ctx, w.patience, w.key, func() (*os.File, error) { return openDir(at, name, depth == 0) },
		func(dir *os.File) { _ = dir.Close() })
	if err != nil {
		w.miss(err)
		return
	}
	for more := true; more && !w.ends(ctx); {
		var found []entry
		found, more = w.read(ctx, dir)
		for i := range found {
			w.count(ctx, int(dir.Fd()), &found[i], depth)
		}
	}
	if ctx.Err() != nil {
		w.miss(context.Cause(ctx))
	}
	if !w.hung { // what a step hangs on is left to it
		w.miss(dir.Close())
	}
}

// ends says that the walk is to end where it is.
func (w *walk) ends(ctx context.Context) bool { return w.hung || ctx.Err() != nil }

func openDir(at int, name string, top bool) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW}
	if !top { // the way to the top is the shim's
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
	}
	fd, err := unix.Openat2(at, name, how)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, errNotThere // it was replaced meanwhile, or is a mount
	case err != nil:
		return nil, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// read takes the next entries of a directory, and says whether there may be more.
func (w *walk) read(ctx context.Context, dir *os.File) (found []entry, more bool) {
	type step struct {
		found []entry
		err   error
		end   bool
	}
	s, err := hostfs.Ask(ctx, w.patience, w.key, func() (step, error) {
		names, err := dir.Readdirnames(namesAtOnce)
		if err != nil && !errors.Is(err, io.EOF) {
			return step{}, err
		}
		s := step{end: len(names) == 0}
		for _, name := range names {
			e, err := statAt(int(dir.Fd()), name)
			if err != nil {
				s.err = errors.Join(s.err, notThere(err))
				continue
			}
			s.found = append(s.found, e)
		}
		return s, nil
	}, func(step) {})
	if err = errors.Join(err, s.err); err != nil {
		w.miss(err)
	}
	return s.found, !s.end && err == nil
}

// count counts an entry with all below it.
func (w *walk) count(ctx context.Context, at int, e *entry, depth int) {
	if e.stat.Dev != w.device || w.ends(ctx) {
		return
	}
	w.add(&e.stat)
	if e.stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		w.enter(ctx, at, e.name, depth+1)
	}
}
