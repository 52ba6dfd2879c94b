// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	paths := map[string]string{"none": filepath.Join(dir, "none"), "dir": dir, "char": "/dev/null"}
	for _, name := range []string{"file", "link", "socket"} {
		paths[name] = filepath.Join(dir, name)
	}
	write(t, paths["file"], "x")
	if err := os.Symlink(paths["file"], paths["link"]); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", paths["socket"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	tests := map[string]struct {
		kind corev1.HostPathType
		ok   []string
		text string
	}{
		"unset":     {corev1.HostPathUnset, []string{"none", "dir", "file", "link", "socket", "char"}, ""},
		"directory": {corev1.HostPathDirectory, []string{"dir"}, "is not a directory"},
		"file":      {corev1.HostPathFile, []string{"file", "link"}, "is not a file"},
		"socket":    {corev1.HostPathSocket, []string{"socket"}, "is not a socket file"},
		"char":      {corev1.HostPathCharDev, []string{"char"}, "is not a character device"},
		"block":     {corev1.HostPathBlockDev, nil, "is not a block device"},
		"unknown":   {"Pipe", nil, "Pipe is an invalid volume type"},
	}
	for name, tt := range tests {
		for kind, path := range paths {
			t.Run(name+" on "+kind, func(t *testing.T) {
				err := newManager(t, nil).WaitForMount(t.Context(), withVolumes(hostPathVolume("v", path, tt.kind)))
				if slices.Contains(tt.ok, kind) {
					if err != nil {
						t.Errorf("unexpected error: %v", err)
					}
					return
				}
				want := `MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` + path + " " + tt.text
				if name == "unknown" {
					want = `MountVolume.SetUp failed for volume "v" : ` + tt.text
				}
				if err == nil || err.Error() != want {
					t.Errorf("error %v, want %q", err, want)
				}
			})
		}
	}
}

func TestHostPathIsMade(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	tests := map[string]struct {
		kind     corev1.HostPathType
		path     string
		wantMode fs.FileMode
		wantErr  bool
	}{
		"directory with parents":     {corev1.HostPathDirectoryOrCreate, "a/b", fs.ModeDir | 0o755, false},
		"file":                       {corev1.HostPathFileOrCreate, "f", 0o644, false},
		"file without its directory": {corev1.HostPathFileOrCreate, "a/f", 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.path)
			m, pod := newManager(t, nil), withVolumes(hostPathVolume("v", path, tt.kind))
			if err := m.WaitForMount(t.Context(), pod); (err != nil) != tt.wantErr {
				t.Fatalf("error %v, want one: %v", err, tt.wantErr)
			}
			if tt.wantErr {
				return
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode() != tt.wantMode {
				t.Errorf("made %v, %v, want %v", info, err, tt.wantMode)
			}
			prepare(t, newManager(t, nil), pod) // it is there now
		})
	}
}

func TestHostPathIsCheckedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "")
	m, pod := newManager(t, nil), withVolumes(hostPathVolume("v", file, corev1.HostPathFile))
	prepare(t, m, pod)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, pod)
	if err := m.WaitForMount(t.Context(), withVolumes(hostPathVolume("v", file, corev1.HostPathSocket))); err == nil {
		t.Error("a changed type is not checked")
	}
}

func TestUnsupportedVolume(t *testing.T) {
	pod := withVolumes(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}})
	if err := newManager(t, nil).WaitForMount(t.Context(), pod); err == nil || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("error %v, want one about v", err)
	}
}

func TestPrepareStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("deleted")
	cancel(cause)
	if err := newManager(t, nil).WaitForMount(ctx, withVolumes(emptyDirVolume("v", "", ""))); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

func TestEmptyDirOnDisk(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	m, pod := newManager(t, nil), withVolumes(emptyDirVolume("v", "", "1Mi"))
	prepare(t, m, pod)
	dir := m.emptyDir(pod.UID, "v")
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Fatalf("%v, %v, want a directory with mode 0777", info, err)
	}
	if info, err := os.Stat(m.podDir(pod.UID)); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("pod directory %v, %v, want it closed to others", info, err)
	}
	// What the workload made of it stays.
	write(t, filepath.Join(dir, "data"), "x")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, pod)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || read(t, filepath.Join(dir, "data")) != "x" {
		t.Errorf("a second Prepare changed the volume: %v, %v", info, err)
	}
}

func TestEmptyDirMediumUnknown(t *testing.T) {
	err := newManager(t, nil).WaitForMount(t.Context(), withVolumes(emptyDirVolume("v", "Tape", "")))
	if err == nil || !strings.Contains(err.Error(), `unknown storage medium "Tape"`) {
		t.Errorf("error %v", err)
	}
}

func groupOf(t *testing.T, path string) int {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return int(stat.Gid)
}

func TestFSGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing groups needs root")
	}
	m := newManager(t, nil)
	withGroup := func(group int64) *corev1.Pod {
		pod := withVolumes(emptyDirVolume("v", "", ""))
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		return pod
	}
	prepare(t, m, withGroup(2000))
	dir := m.emptyDir("0f1c-22", "v")
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o777 || groupOf(t, dir) != 2000 {
		t.Fatalf("%v, %v, group %d", info, err, groupOf(t, dir))
	}
	// Another group reaches what is in the volume, and nothing outside of it.
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "")
	file := filepath.Join(dir, "sub", "file")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "")
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, withGroup(3000))
	for path, want := range map[string]fs.FileMode{filepath.Dir(file): fs.ModeDir | fs.ModeSetgid | 0o770, file: 0o660, outside: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	if groupOf(t, file) != 3000 || groupOf(t, filepath.Join(dir, "link")) != 3000 || groupOf(t, outside) == 3000 {
		t.Error("the group is not where it should be")
	}
}

func tmpfsBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return int64(s.Blocks) * s.Bsize
}

func TestEmptyDirInMemory(t *testing.T) {
	m, pod := newManager(t, nil), withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "1Mi"))
	asRoot(t)
	prepare(t, m, pod)
	dir := m.emptyDir(pod.UID, "v")
	if got := tmpfsBytes(t, dir); got != 1<<20 {
		t.Fatalf("tmpfs of %d bytes, want 1 Mi", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("%v, %v, want mode 1777", info, err)
	}
	write(t, filepath.Join(dir, "data"), "x")
	prepare(t, m, pod)
	if mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir)); err != nil || len(mounts) != 1 {
		t.Errorf("%d mounts, %v, want 1", len(mounts), err)
	}
	prepare(t, m, withVolumes(emptyDirVolume("v", corev1.StorageMediumMemory, "2Mi")))
	if got := tmpfsBytes(t, dir); got != 2<<20 || read(t, filepath.Join(dir, "data")) != "x" {
		t.Errorf("tmpfs of %d bytes after a new limit, want 2 Mi and the data in it", got)
	}
	prepare(t, m, withVolumes(emptyDirVolume("v", "", "")))
	if got := tmpfsBytes(t, dir); got != 0 {
		t.Error("still a tmpfs after the medium changed")
	}
}

func TestTmpfsSize(t *testing.T) {
	limited := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
	}
	tests := map[string]struct {
		change func(*corev1.Pod)
		limit  string
		want   int64
	}{
		"the node's memory":          {nil, "", 8 << 30},
		"sizeLimit":                  {nil, "1Gi", 1 << 30},
		"the pod's limit":            {limited, "", 32 << 20},
		"sizeLimit below the pod's":  {limited, "16Mi", 16 << 20},
		"sizeLimit above the pod's":  {limited, "64Mi", 32 << 20},
		"sizeLimit of 0 is no limit": {nil, "0", 8 << 30},
	}
	m := newManager(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := m.tmpfsSize(testPod(tt.change), emptyDirVolume("v", "", tt.limit).EmptyDir); got != tt.want {
				t.Errorf("size %d, want %d", got, tt.want)
			}
		})
	}
}
