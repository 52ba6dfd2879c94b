// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs/mounttest"
)

func newPatience() *Patience { return NewPatience(10 * time.Second) }

// bindDir binds source on target, both directories.
func bindDir(t *testing.T, source, target string, shared bool) {
	t.Helper()
	mounttest.Must(t, os.MkdirAll(target, 0o750))
	f, err := os.OpenFile(source, unix.O_PATH|unix.O_DIRECTORY, 0)
	mounttest.Must(t, err)
	defer f.Close() //nolint:errcheck // a handle
	mounttest.Must(t, Bind(f, target, shared))
}

// What the node mounts below a bind shows up there; unmounting the bind leaves it
// on the node, whatever the bind shares.
func TestUnmountLeavesTheNodesMounts(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	peer := func(t *testing.T, source, target string) {
		mounttest.Must(t, os.MkdirAll(target, 0o750))
		mounttest.Must(t, unix.Mount(source, target, "", unix.MS_BIND, ""))
	}
	tests := map[string]struct {
		bind            func(t *testing.T, source, target string)
		wantPropagation string
	}{
		"slave":  {func(t *testing.T, s, d string) { bindDir(t, s, d, false) }, "slave"},
		"shared": {func(t *testing.T, s, d string) { bindDir(t, s, d, true) }, "shared"},
		"a peer": {peer, "shared"},
	}
	for name, tt := range tests {
		for how, unmount := range map[string]func(*Patience, string) error{
			"unmount": func(p *Patience, dir string) error { return p.UnmountBelow(t.Context(), dir) },
			"detach":  func(p *Patience, dir string) error { return p.DetachBelow(t.Context(), dir) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				node := mounttest.SharedRoot(t)
				disk := filepath.Join(node, "data/disk")
				mounttest.Must(t, os.MkdirAll(disk, 0o750))
				target := filepath.Join(node, "pods/target")
				tt.bind(t, filepath.Dir(disk), target)
				if got := mounttest.Propagation(t, target); got != tt.wantPropagation {
					t.Errorf("the bind is %s, want %s", got, tt.wantPropagation)
				}
				mounttest.MountTmpfs(t, disk)
				mounttest.MountTmpfs(t, filepath.Join(disk, "deeper"))
				if !mounttest.Mounted(t, filepath.Join(target, "disk/deeper")) {
					t.Error("the node's mounts do not show up below the bind")
				}
				mounttest.Must(t, unmount(newPatience(), filepath.Dir(target)))
				if !mounttest.Mounted(t, disk) || !mounttest.Mounted(t, filepath.Join(disk, "deeper")) {
					t.Error("the node's own mounts are gone")
				}
				if left, err := MountsBelow(filepath.Dir(target)); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		}
	}
}

// A container with propagation Bidirectional mounts the node's root, and all that is
// on it, in its volume.
func TestUnmountLeavesTheNodesRootMountedInAVolume(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	node := mounttest.SharedRoot(t)
	disk, volume := filepath.Join(node, "disk"), filepath.Join(node, "pods/volume")
	mounttest.MountTmpfs(t, disk)
	mounttest.Must(t, os.MkdirAll(filepath.Join(volume, "node"), 0o750))
	mounttest.Must(t, unix.Mount(node, filepath.Join(volume, "node"), "", unix.MS_BIND|unix.MS_REC, ""))
	mounttest.Must(t, newPatience().UnmountBelow(t.Context(), volume))
	if !mounttest.Mounted(t, disk) || mounttest.Mounted(t, filepath.Join(volume, "node")) {
		t.Error("want the node's mount kept, and the volume's gone")
	}
}

// The node mounted something over the directory that a bind shows which is a peer of its own
// mount: nothing is unmounted that would disappear from the node too.
func TestUnmountRefusesACoveredPeer(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	node := mounttest.SharedRoot(t)
	data, target := filepath.Join(node, "data"), filepath.Join(node, "pods/target")
	mounttest.Must(t, errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(target, 0o750)))
	mounttest.Must(t, unix.Mount(data, target, "", unix.MS_BIND, ""))
	mounttest.MountTmpfs(t, data)
	if len(mounttest.At(t, target)) != 2 {
		t.Skip("this kernel does not cover the bind")
	}
	if err := newPatience().UnmountBelow(t.Context(), target); !errors.Is(err, ErrCovered) {
		t.Errorf("error %v, want ErrCovered", err)
	}
	if !mounttest.Mounted(t, data) {
		t.Error("the node's own mount is gone")
	}
}

// Mounts go deepest and latest first: any other order finds them busy.
func TestUnmountOrder(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "dir")
	for _, sub := range []string{"", "a", "a/b", "a/b", "c", "a/b/d", ""} {
		mounttest.MountTmpfs(t, filepath.Join(dir, sub))
	}
	mounttest.MountTmpfs(t, filepath.Join(dir, "e"))
	mounttest.MountTmpfs(t, dir+"-other")
	mounttest.Must(t, newPatience().UnmountBelow(t.Context(), dir))
	if left, err := MountsBelow(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if !mounttest.Mounted(t, dir+"-other") {
		t.Error("a mount beside the directory is gone")
	}
}

// What is in use is an error for one way, and kept by who uses it for the other.
func TestUnmountOfWhatIsInUse(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "dir")
	mounttest.MountTmpfs(t, dir)
	f, err := os.Create(filepath.Join(dir, "open"))
	mounttest.Must(t, err)
	defer f.Close() //nolint:errcheck // a test's
	if err := newPatience().UnmountBelow(t.Context(), dir); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	mounttest.Must(t, newPatience().DetachBelow(t.Context(), dir))
	if _, err := f.WriteString("x"); err != nil || mounttest.Mounted(t, dir) {
		t.Errorf("write to the detached file: %v", err)
	}
}

// A network file system that answers nothing is detached: the removal of a mount
// above it does not wait for it.
func TestUnmountDoesNotWaitForAHungFileSystem(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	node := mounttest.SharedRoot(t)
	mounttest.MountHung(t, filepath.Join(node, "data/nfs"))
	target := filepath.Join(node, "pods/target")
	mounttest.Must(t, os.MkdirAll(target, 0o750))
	mounttest.Must(t, unix.Mount(filepath.Join(node, "data"), target, "", unix.MS_BIND|unix.MS_REC, ""))
	mounttest.MountTmpfs(t, filepath.Join(node, "data/disk"))
	p := NewPatience(100 * time.Millisecond)
	start := time.Now()
	mounttest.Must(t, p.UnmountBelow(t.Context(), target))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	for path, want := range map[string]bool{"data/nfs": true, "data/disk": true, "pods/target": false} {
		if got := mounttest.Mounted(t, filepath.Join(node, path)); got != want {
			t.Errorf("%s mounted: %v, want %v", path, got, want)
		}
	}
}

// A mount that only a call of this process still uses, which hangs, is detached.
func TestUnmountOfWhatACallHangsOn(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	p := NewPatience(100 * time.Millisecond)
	for _, below := range []string{"", "sub"} {
		dir := filepath.Join(t.TempDir(), "dir")
		mounttest.MountHung(t, filepath.Join(dir, below))
		err := p.Do(t.Context(), dir, func() error {
			_, err := os.Lstat(filepath.Join(dir, below, "x"))
			return err
		})
		if !errors.Is(err, ErrHung) {
			t.Errorf("error %v, want ErrHung", err)
		}
		mounttest.Must(t, p.UnmountBelow(t.Context(), dir))
		if left, err := MountsBelow(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// A mount in use stays, although a call that does not hang is under way.
func TestUnmountOfWhatIsInUseBesideACall(t *testing.T) {
	if !mounttest.Isolate(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "dir")
	mounttest.MountTmpfs(t, dir)
	f, err := os.Create(filepath.Join(dir, "open"))
	mounttest.Must(t, err)
	defer f.Close() //nolint:errcheck // a test's
	p := newPatience()
	err = p.Do(t.Context(), dir, func() error { return p.UnmountBelow(t.Context(), dir) })
	if !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
}

// A shim in a container asks the node's own mount table.
func TestMountedOnTheNode(t *testing.T) {
	root := t.TempDir()
	if _, known, err := Root(root).Mounted("/x"); known || err != nil {
		t.Errorf("known %v, %v without a table", known, err)
	}
	if _, known, err := Root("").Mounted("/"); known || err != nil {
		t.Errorf("known %v, %v without a container", known, err)
	}
	table := "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 22 0:40 / /pods/v rw - tmpfs tmpfs rw\n"
	mounttest.Must(t, os.WriteFile(mounttest.Touch(t, root, "proc/1/mountinfo"), []byte(table), 0o600))
	for path, want := range map[string]bool{"/pods/v": true, "/pods": false} {
		if there, known, err := Root(root).Mounted(path); there != want || !known || err != nil {
			t.Errorf("%s: %v, %v, %v, want %v", path, there, known, err, want)
		}
	}
}
