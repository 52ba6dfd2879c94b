// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// hostPath of every type that is as it should be; what is wrong is tested in
// badinput.
func TestHostPathTypes(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	for _, dir := range []string{"unset", "directory"} {
		if err := os.Mkdir(filepath.Join(w.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w, "file", "in the file")
	if err := unix.Mknod(filepath.Join(w.Dir, "block"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(w.Dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })

	types := []struct{ name, kind, path, mode string }{
		{"unset", "", "$DIR/unset", "d"},
		{"directory", "Directory", "$DIR/directory", "d"},
		{"directory-or-create", "DirectoryOrCreate", "$DIR/new/directory", "drwxr-xr-x 0 0"},
		{"file", "File", "$DIR/file", "-"},
		{"file-or-create", "FileOrCreate", "$DIR/new-file", "-rw-r--r-- 0 0"},
		{"socket", "Socket", "$DIR/socket", "S"},
		{"char", "CharDevice", "/dev/null", "Dcrw"},
		{"block", "BlockDevice", "$DIR/block", "Drw"},
	}
	commands := []string{"cat /file"}
	var volumes, mounts []string
	for _, v := range types {
		volumes = append(volumes, fmt.Sprintf("{name: %s, hostPath: {path: %s, type: %q}}", v.name, v.path, v.kind))
		mounts = append(mounts, fmt.Sprintf("{name: %s, mountPath: /%s}", v.name, v.name))
		commands = append(commands, "stat /"+v.name)
	}
	w.Apply(fmt.Sprintf("containers: [{name: c, image: %s, args: %s, volumeMounts: [%s]}]\nvolumes: [%s]",
		testImage, show(commands...), strings.Join(mounts, ","), strings.Join(volumes, ",")))
	w.AwaitReady()
	got := shown(t, w, "c", commands...)
	expect(t, got, map[string]string{"cat /file": "in the file"})
	for _, v := range types {
		if said := got["stat /"+v.name]; !strings.HasPrefix(said, v.mode) {
			t.Errorf("%s is %q inside, want %s...", v.kind, said, v.mode)
		}
	}
	for path, mode := range map[string]os.FileMode{"new": os.ModeDir | 0o755, "new/directory": os.ModeDir | 0o755, "new-file": 0o644} {
		if info, err := os.Stat(filepath.Join(w.Dir, path)); err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s was made with mode %s, want %s", path, info.Mode(), mode)
		}
	}
}

// The files of an image, whole and in part, read-only; what an image lacks keeps a container
// from being created, in the runtime's words.
func TestImageVolumes(t *testing.T) {
	t.Parallel()
	const image = localstack.ImageV2
	commands := []string{"cat /image/etc/group", "cat /part/group", "touch /image/new", "mounts"}
	spec := func(subPath string) string {
		return fmt.Sprintf(`
containers:
- {name: c, image: %s, args: %s, volumeMounts: [{name: files, mountPath: /image}, {name: files, mountPath: /part, subPath: %s}]}
volumes: [{name: files, image: {reference: %s}}]`, testImage, show(commands...), subPath, image)
	}
	w := env.Apply(t, spec("etc"))
	w.AwaitReady()
	w.AwaitEvent("Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", image))
	got := shown(t, w, "c", commands...)
	for _, command := range commands[:2] {
		contains(t, command, got[command], "extra:x:65533:nonroot")
	}
	contains(t, "touch", got["touch /image/new"], "read-only file system")
	for _, point := range []string{"/image", "/part"} {
		if options, _, _ := mountAt(t, got["mounts"], point); !has(options, "ro") {
			t.Errorf("%s is mounted with %s", point, options)
		}
	}
	lacks := env.Apply(t, spec("nowhere"))
	_, message := awaitWaiting(t, lacks, "CreateContainerError")
	contains(t, "message", message, "ImageVolumeMountFailed")
}

// A volume of an image that cannot be pulled says so as a container's own image does. What
// runs is not killed for one.
func TestImageVolumeThatIsMissing(t *testing.T) {
	t.Parallel()
	spec := func(image string) string {
		return fmt.Sprintf(`
containers: [{name: c, image: %s, args: [pause], volumeMounts: [{name: files, mountPath: /image}]}]
volumes: [{name: files, image: {reference: %q}}]`, testImage, image)
	}
	w := env.Apply(t, spec(missing))
	awaitWaiting(t, w, "ErrImagePull", "ImagePullBackOff")
	w.AwaitEvent("Failed", "Error: ErrImagePull")
	w.Apply(spec(testImage))
	runs := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	w.Apply(spec(missing))
	w.Await("the change waits for the image", func(nw *v1alpha1.NodeWorkload) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting)
		return c != nil && c.Reason == "ErrImagePull" && nw.Status.ContainerStatuses[0].ContainerID == runs && nw.Status.ContainerStatuses[0].Ready
	})
}

func TestEmptyDirs(t *testing.T) {
	t.Parallel()
	mounts := "[{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}, {name: small, mountPath: /small}]"
	commands := []string{"cat /disk/file", "cat /memory/file", "stat /disk", "stat /memory", "mounts", "touch /disk/readonly"}
	w := env.Apply(t, fmt.Sprintf(`
initContainers:
- {name: writer, image: %[1]s, args: [seq, write, /disk/file, shared, ",", write, /memory/file, shared as well], volumeMounts: %[2]s}
containers:
- {name: reader, image: %[1]s, args: %[3]s, volumeMounts: %[2]s}
- {name: careful, image: %[1]s, args: %[3]s, volumeMounts: [{name: disk, mountPath: /disk, readOnly: true}]}
volumes:
- {name: disk, emptyDir: {}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}}
- {name: small, emptyDir: {medium: Memory, sizeLimit: 64Ki}}`, testImage, mounts, show(commands...)))
	nw := w.AwaitReady()
	got := shown(t, w, "reader", commands...)
	expect(t, got, map[string]string{
		"cat /disk/file": "shared", "cat /memory/file": "shared as well",
		"stat /disk": "drwxrwxrwx 0 0 disk", "stat /memory": "dtrwxrwxrwx 0 0 memory",
		"touch /disk/readonly": "",
	})
	for point, size := range map[string]string{"/memory": "size=8192k", "/small": "size=64k"} {
		if _, kind, super := mountAt(t, got["mounts"], point); kind != "tmpfs" || !has(super, size) {
			t.Errorf("%s is a %s with %s, want a tmpfs with %s", point, kind, super, size)
		}
	}
	if _, kind, _ := mountAt(t, got["mounts"], "/disk"); kind == "tmpfs" {
		t.Errorf("/disk is in memory")
	}
	careful := shown(t, w, "careful", commands...)
	contains(t, "touch", careful["touch /disk/readonly"], "read-only file system")
	if options, _, _ := mountAt(t, careful["mounts"], "/disk"); !has(options, "ro") {
		t.Errorf("/disk is mounted with %s", options)
	}
	// On the node, where a kubelet has it too.
	data, err := os.ReadFile(filepath.Join(env.Stack.ShimStateDir(), "pods", string(nw.UID), "volumes/kubernetes.io~empty-dir/disk/file"))
	if err != nil || string(data) != "shared" {
		t.Errorf("on the node: %q, %v", data, err)
	}
}

// An emptyDir outlives its containers' restarts.
func TestEmptyDirSurvivesRestart(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: c, image: %s, args: [seq, ls, /disk, ",", ls, /memory, ",", touch, /disk/d, ",", touch, /memory/m, ",", echo, done], volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]}
volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]`, testImage))
	if first := w.AwaitLog("c", 0, "done"); first != "done\n" {
		t.Errorf("at first there was %q", first)
	}
	second := w.AwaitLog("c", 1, "done")
	contains(t, "after a restart", second, " d\n")
	contains(t, "after a restart", second, " m\n")
}

// A subPath shows a part of a volume, makes it when it is missing, and never
// leads out of the volume.
func TestSubPaths(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	if err := os.MkdirAll(filepath.Join(w.Dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, w, "etc/inside", "")
	write(t, w, "file", "only this")
	if err := os.Symlink("/etc", filepath.Join(w.Dir, "escape")); err != nil {
		t.Fatal(err)
	}
	commands := []string{"cat /file", "ls /made", "touch /made/x", "ls /named", "touch /named/x", "ls /escape", "touch /readonly/y"}
	w.Apply(fmt.Sprintf(`
containers:
- name: c
  image: %s
  args: %s
  env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  volumeMounts:
  - {name: dir, mountPath: /file, subPath: file}
  - {name: dir, mountPath: /made, subPath: a/b}
  - {name: dir, mountPath: /named, subPathExpr: by-name/$(NAME)}
  - {name: dir, mountPath: /escape, subPath: escape}
  - {name: empty, mountPath: /readonly, subPath: part, readOnly: true}
volumes: [%s, {name: empty, emptyDir: {}}]`, testImage, show(commands...), dirVolume))
	nw := w.AwaitReady()
	got := shown(t, w, "c", commands...)
	expect(t, got, map[string]string{"cat /file": "only this", "ls /made": "", "touch /made/x": "", "ls /named": "", "touch /named/x": ""})
	contains(t, "the link's target in the volume", got["ls /escape"], " inside")
	if strings.Contains(got["ls /escape"], "passwd") {
		t.Errorf("subPath leads to the node's /etc: %s", got["ls /escape"])
	}
	contains(t, "touch", got["touch /readonly/y"], "read-only file system")
	for _, path := range []string{"a/b/x", "by-name/" + nw.Name + "/x"} {
		if _, err := os.Stat(filepath.Join(w.Dir, path)); err != nil {
			t.Errorf("not on the node: %v", err)
		}
	}
}

// Mounts that come later are seen where the template says so, and nowhere else.
func TestMountPropagation(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	for _, dir := range []string{"host", "back"} {
		if err := os.Mkdir(filepath.Join(w.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(w.Dir, "host", "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	const look = "ls /host/later"
	looking := func(name, propagation string) string {
		args := strings.Replace(show(look, "mounts"), `"seq",`, `"seq","echo","runs",",","wait-file","/dir/go",",",`, 1)
		return fmt.Sprintf("- {name: %s, image: %s, args: %s, volumeMounts: [%s, {name: host, mountPath: /host%s}]}\n", name, testImage, args, dirMount, propagation)
	}
	w.Apply("containers:\n" +
		looking("unset", "") + looking("none", ", mountPropagation: None") +
		looking("follows", ", mountPropagation: HostToContainer") +
		looking("readonly", ", mountPropagation: HostToContainer, readOnly: true") +
		fmt.Sprintf(`
- {name: gives, image: %s, args: [seq, mount-tmpfs, /back/inner, ",", touch, /back/inner/file, ",", echo, mounted, ",", serve],
  securityContext: {privileged: true}, volumeMounts: [{name: back, mountPath: /back, mountPropagation: Bidirectional}]}
volumes: [%s, {name: host, hostPath: {path: $DIR/host}}, {name: back, hostPath: {path: $DIR/back}}]`, testImage, dirVolume))
	w.AwaitReady()
	later := filepath.Join(w.Dir, "host", "later")
	if err := unix.Mount("tmpfs", later, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(later, unix.MNT_DETACH) })
	write(t, w, "host/later/seen", "")
	write(t, w, "go", "")
	for container, sees := range map[string]bool{"unset": false, "none": false, "follows": true, "readonly": true} {
		got := shown(t, w, container, look, "mounts")
		if strings.Contains(got[look], " seen") != sees {
			t.Errorf("%s: a later mount shows %q, want it seen: %t", container, got[look], sees)
		}
		if options, _, _ := mountAt(t, got["mounts"], "/host"); strings.Contains(options, "master:") != sees || strings.Contains(options, "shared:") {
			t.Errorf("%s: /host is mounted with %s", container, options)
		}
	}
	w.AwaitLog("gives", 0, "mounted")
	inner := filepath.Join(w.Dir, "back", "inner")
	t.Cleanup(func() { _ = unix.Unmount(inner, unix.MNT_DETACH) })
	if mounted, err := mountinfo.Mounted(inner); err != nil || !mounted {
		t.Errorf("the container's mount does not show on the node: %v", err)
	}
}
