// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

const mib = 1 << 20

// write makes a file of so many bytes, with its directory.
func write(t *testing.T, path string, bytes int) {
	t.Helper()
	mounttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	mounttest.Must(t, os.WriteFile(path, make([]byte, bytes), 0o600))
}

// usage is what du counts, in MiB; directories are far less.
func usage(t *testing.T, patience *hostfs.Patience, path string) (int64, error) {
	t.Helper()
	found, err := du(t.Context(), patience, path)
	return (found.bytes + mib/2) / mib, errors.Join(err, found.bound)
}

func newPatience() *hostfs.Patience { return hostfs.NewPatience(10 * time.Second) }

// Each inode counts once, by the blocks that it has; links are not followed.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "other"), 8*mib)
	write(t, filepath.Join(dir, "file"), mib)
	write(t, filepath.Join(dir, "a/b/c/deep"), mib)
	mounttest.Must(t, os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "a/again")))
	mounttest.Must(t, os.Symlink(other, filepath.Join(dir, "link")))
	mounttest.Must(t, os.Symlink(filepath.Join(other, "other"), filepath.Join(dir, "a/link")))
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	mounttest.Must(t, errors.Join(err, sparse.Truncate(8*mib), sparse.Close()))
	for name, tt := range map[string]struct {
		path string
		want int64
	}{
		"a tree":            {dir, 2},
		"a file":            {filepath.Join(other, "other"), 8},
		"a link":            {filepath.Join(dir, "link"), 0},
		"what is not":       {filepath.Join(dir, "none"), 0},
		"below what is not": {filepath.Join(dir, "none/none"), 0},
	} {
		if got, err := usage(t, newPatience(), tt.path); got != tt.want || err != nil {
			t.Errorf("%s: %d MiB, want %d; error %v", name, got, tt.want, err)
		}
	}
}

// A container can make a tree as deep as it likes. What lies too deep is not counted, and the
// rest is.
func TestUsageOfADeepTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), mib)
	write(t, filepath.Join(dir, strings.Repeat("d/", maxDepth-1), "counted"), 16*mib)
	write(t, filepath.Join(dir, strings.Repeat("d/", maxDepth), "too deep"), 16*mib)
	found, err := du(t.Context(), newPatience(), dir)
	if got := found.bytes / mib; got < 17 || got > 20 || !errors.Is(found.bound, errTooDeep) || err != nil {
		t.Errorf("%d MiB, bound %v, error %v", got, found.bound, err)
	}
}

// What is mounted in a volume is not the volume's, and one that does not answer costs no more
// than the patience.
func TestUsageDoesNotCrossMounts(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), mib)
	mounttest.MountTmpfs(t, filepath.Join(dir, "tmpfs"))
	write(t, filepath.Join(dir, "tmpfs/file"), mib)
	write(t, filepath.Join(dir, "single"), 0)
	mounttest.Must(t, unix.Mount(filepath.Join(dir, "tmpfs/file"), filepath.Join(dir, "single"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { mounttest.Must(t, unix.Unmount(filepath.Join(dir, "single"), unix.MNT_DETACH)) })
	mounttest.Must(t, os.Mkdir(filepath.Join(dir, "bind"), 0o750))
	other := t.TempDir()
	write(t, filepath.Join(other, "file"), mib)
	mounttest.Must(t, unix.Mount(other, filepath.Join(dir, "bind"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { mounttest.Must(t, unix.Unmount(filepath.Join(dir, "bind"), unix.MNT_DETACH)) })
	if got, err := usage(t, newPatience(), dir); got != 1 || err != nil {
		t.Errorf("%d MiB, error %v", got, err)
	}
	if got, err := usage(t, newPatience(), filepath.Join(dir, "tmpfs")); got != 1 || err != nil {
		t.Errorf("in memory: %d MiB, error %v", got, err)
	}
	mounttest.MountHung(t, filepath.Join(dir, "hung"))
	begun := time.Now()
	if _, err := usage(t, hostfs.NewPatience(100*time.Millisecond), filepath.Join(dir, "hung/x")); !errors.Is(err, hostfs.ErrHung) {
		t.Errorf("error %v, want ErrHung", err)
	}
	if _, err := usage(t, hostfs.NewPatience(100*time.Millisecond), dir); err != nil && !errors.Is(err, hostfs.ErrHung) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
