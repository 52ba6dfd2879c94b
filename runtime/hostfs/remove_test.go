// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

// deepTree makes a tree of that depth as a container would: cd x; mkdir x; ...
func deepTree(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	mounttest.Must(t, err)
	for range depth {
		mounttest.Must(t, unix.Mkdirat(fd, "x", 0o700))
		next, err := unix.Openat(fd, "x", unix.O_PATH|unix.O_DIRECTORY, 0)
		mounttest.Must(t, errors.Join(err, unix.Close(fd)))
		fd = next
	}
	mounttest.Must(t, unix.Close(fd))
}

// scratch is in memory where it can be: disks take long for deep trees.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mwtest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := RemoveTree(context.Background(), filepath.Dir(dir), filepath.Base(dir)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return dir
}

// withOpenFiles lets the process open so many files more.
func withOpenFiles(t *testing.T, more uint64) {
	t.Helper()
	var limit unix.Rlimit
	mounttest.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open, err := os.ReadDir("/proc/self/fd")
	mounttest.Must(t, err)
	less := limit
	less.Cur = min(uint64(len(open))+more, limit.Cur)
	mounttest.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &less))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
}

func TestRemoveTreeHoweverDeep(t *testing.T) {
	dir := scratch(t)
	top := filepath.Join(dir, "top")
	mounttest.Touch(t, top, movedName+"1") // a name that the removal would take
	mounttest.Touch(t, top, movedName+"2", "below")
	deepTree(t, top, 20000)
	withOpenFiles(t, maxOpenDirs+20)
	if err := RemoveTree(t.Context(), dir, "top"); err != nil {
		t.Fatalf("remove: %.200v", err)
	}
	if _, err := os.Lstat(top); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

func TestRemoveTreeHoweverWide(t *testing.T) {
	dir := scratch(t)
	for i := range 2*namesAtOnce + 10 {
		mounttest.Touch(t, dir, "top", fmt.Sprintf("sub%d", i%3), fmt.Sprint(i))
	}
	mounttest.Must(t, RemoveTree(t.Context(), dir, "top"))
	if _, err := os.Lstat(filepath.Join(dir, "top")); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	mounttest.Must(t, RemoveTree(t.Context(), dir, "top"))                        // nothing is left
	mounttest.Must(t, RemoveTree(t.Context(), filepath.Join(dir, "none"), "top")) // and never was
}

func TestRemoveTreeFollowsNoLink(t *testing.T) {
	dir, outside := scratch(t), mounttest.Touch(t, t.TempDir(), "outside")
	mounttest.Touch(t, dir, "top", "sub", "file")
	for link, to := range map[string]string{"file": outside, "dir": filepath.Dir(outside), "up": "../../.."} {
		mounttest.Must(t, os.Symlink(to, filepath.Join(dir, "top/sub", link+"-link")))
	}
	mounttest.Must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link")))
	for _, name := range []string{"top", "link"} {
		mounttest.Must(t, RemoveTree(t.Context(), dir, name))
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside was touched: %v", err)
	}
}

func TestRemoveTreeCrossesNoMount(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir, outside := scratch(t), mounttest.Touch(t, t.TempDir(), "outside")
	target := filepath.Dir(mounttest.Touch(t, dir, "top/sub/mnt", "file"))
	mounttest.Must(t, unix.Mount(filepath.Dir(outside), target, "", unix.MS_BIND, ""))
	if err := RemoveTree(t.Context(), dir, "top"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("error %v, want EXDEV", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside was touched: %v", err)
	}
	mounttest.Must(t, unix.Unmount(target, unix.MNT_DETACH))
}

func TestRemoveTreeStopsWhenCancelled(t *testing.T) {
	dir := scratch(t)
	file := mounttest.Touch(t, dir, "top", "file")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("shutting down")
	cancel(cause)
	if err := RemoveTree(ctx, dir, "top"); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
