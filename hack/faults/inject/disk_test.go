// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDisk(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("mounting needs root on Linux")
	}
	folder, mounted := t.TempDir(), t.TempDir()
	disk, err := MountDisk(folder, mounted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(mounted, "file")
	write := func(text string) error { return os.WriteFile(file, []byte(text), 0o600) }
	if err := write("before"); err != nil {
		t.Fatal(err)
	}
	disk.Break(NoSpace)
	if err := os.WriteFile(filepath.Join(mounted, "other"), nil, 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write on a full disk: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "before" {
		t.Errorf("read on a full disk: %q, %v", text, err)
	}
	disk.Break(IOError)
	if _, err := os.ReadFile(file); !errors.Is(err, unix.EIO) {
		t.Errorf("read on a broken disk: %v", err)
	}
	if _, err := os.ReadDir(mounted); !errors.Is(err, unix.EIO) {
		t.Errorf("list on a broken disk: %v", err)
	}
	disk.Break(NoAnswer)
	written := make(chan error, 1)
	go func() { written <- write("after") }()
	select {
	case err := <-written:
		t.Errorf("a write on a disk that does not answer ended: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	disk.Break(NoSpace)
	if err := <-written; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write that waited when the fault changed: %v", err)
	}
	if failed := disk.Heal(); failed == 0 {
		t.Error("the fault met no access")
	}
	if err := write("after"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "file")); err != nil || string(text) != "after" {
		t.Errorf("healed: %q, %v", text, err)
	}
}
