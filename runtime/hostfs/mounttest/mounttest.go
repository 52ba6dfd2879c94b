// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mounttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// isolated is set in a test process that has a mount namespace of its own.
const isolated = "MW_TEST_MOUNT_NAMESPACE"

// Isolate runs the calling test again in a mount namespace of its own, with all
// mounts private, and reports whether this is that run; in the other one the test
// is to return at once. Without root on Linux the test is skipped.
func Isolate(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolated) == t.Name() {
		Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), isolated+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a mount namespace of its own: %v\n%s", err, out)
	}
	return false
}

// SharedRoot mounts a tmpfs that stands for the node's root directory: shared, as
// systemd makes it.
func SharedRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	MountTmpfs(t, dir)
	Must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	return dir
}

// MountTmpfs mounts a tmpfs on a directory, which is made.
func MountTmpfs(t *testing.T, dir string) {
	t.Helper()
	Must(t, os.MkdirAll(dir, 0o755)) //nolint:gosec // a test's
	Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// MountHung mounts a file system that answers nothing on a directory, which is
// made; it ends with the test.
func MountHung(t *testing.T, dir string) {
	t.Helper()
	Must(t, os.MkdirAll(dir, 0o755)) //nolint:gosec // a test's
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	options := "fd=" + strconv.Itoa(int(fuse.Fd())) + ",rootmode=40000,user_id=0,group_id=0"
	err = unix.Mount("hung", dir, "fuse", 0, options)
	t.Cleanup(func() {
		_ = fuse.Close() // it answers with an error from now on
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	Must(t, err)
}

// Mounted says whether something is mounted on a path.
func Mounted(t *testing.T, path string) bool {
	t.Helper()
	return len(At(t, path)) > 0
}

// At returns the mounts on a path.
func At(t *testing.T, path string) []*mountinfo.Info {
	t.Helper()
	found, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != path, false })
	Must(t, err)
	return found
}

// Propagation says how events of the mount on a path spread: "shared", "slave",
// "shared slave", or "private".
func Propagation(t *testing.T, path string) string {
	t.Helper()
	mounts := At(t, path)
	if len(mounts) != 1 {
		t.Fatalf("%d mounts on %s, want 1", len(mounts), path)
	}
	var words []string
	for field := range strings.FieldsSeq(mounts[0].Optional) {
		kind, _, _ := strings.Cut(field, ":")
		words = append(words, map[string]string{"shared": "shared", "master": "slave"}[kind])
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if len(words) == 0 {
		return "private"
	}
	return strings.Join(words, " ")
}

// Touch makes a file and its directories.
func Touch(t *testing.T, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	Must(t, os.MkdirAll(filepath.Dir(file), 0o755)) //nolint:gosec // a test's
	Must(t, os.WriteFile(file, []byte("x"), 0o600))
	return file
}

// Must ends the test at an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
