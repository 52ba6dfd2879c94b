// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// isolated has its users apart from the node's, and a volume of most kinds.
const isolated = `
hostUsers: false
runtimeClassName: isolated
securityContext: {fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}
containers:
- name: root
  image: ` + testImage + `
  args: [serve, --http=:8080]
  readinessProbe: {exec: {command: [/testprogram, check-file, /files/mode]}, periodSeconds: 1}
  volumeMounts: &mounts
  - {name: files, mountPath: /files}
  - {name: disk, mountPath: /disk}
  - {name: memory, mountPath: /memory}
  - {name: host, mountPath: /host}
- name: user
  image: ` + testImage + `
  securityContext: {runAsUser: 1000}
  args: [serve]
  volumeMounts: *mounts
volumes:
- {name: files, configMap: {name: settings, defaultMode: 0400}}
- {name: disk, emptyDir: {}}
- {name: memory, emptyDir: {medium: Memory}}
- {name: host, hostPath: {path: $DIR}}`

// Users in a user namespace are others on the node, and no two workloads share any; the
// files of volumes have the owners that they have without one. A restart of the shim changes
// none of it.
func testUserNamespaces(t *testing.T) {
	if lacks := lacksUserNamespaces(t); lacks != "" {
		t.Skip(lacks)
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "isolated"}, Handler: localstack.HandlerUserNamespaces}
	if err := env.Kube.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	one, other := isolate(t), isolate(t)
	firsts := map[uint64]string{firstID(t, one): "one", firstID(t, other): "other"}
	volumesAsWithout(t, one)

	shim := env.Stack.Node.Shim
	before := one.Node().Status.ContainerStatuses
	if err := shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := isolate(t)
	firsts[firstID(t, third)] = "third"
	if len(firsts) != 3 {
		t.Errorf("three workloads share IDs: they begin at %v", firsts)
	}
	if diff := cmp.Diff(before, one.Node().Status.ContainerStatuses); diff != "" {
		t.Errorf("containers over the shim's restart (-before +after):\n%s", diff)
	}
	kept := firstID(t, one)
	restartOf(t, one, "root")
	if now := firstID(t, one); now != kept || firsts[now] != "one" {
		t.Errorf("a container that restarts has the IDs from %d, before the shim's restart %d: %v", now, kept, firsts)
	}
	one.AwaitReady()
}

// isolate runs a workload with users of its own.
func isolate(t *testing.T) *harness.Workload {
	t.Helper()
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("settings", "mode", "shown"))
	w.Apply(first() + isolated)
	w.AwaitReady()
	return w
}

// firstID is the node's ID of the container's root, of which there are 65,536 from there on.
func firstID(t *testing.T, w *harness.Workload) uint64 {
	t.Helper()
	users, groups := strings.Fields(inside(t, w, "root", "cat", "/proc/self/uid_map")), strings.Fields(inside(t, w, "root", "cat", "/proc/self/gid_map"))
	if len(users) != 3 || users[0] != "0" || users[2] != "65536" || cmp.Diff(users, groups) != "" {
		t.Fatalf("users are mapped as %q and groups as %q", users, groups)
	}
	id, err := strconv.ParseUint(users[1], 10, 32)
	if err != nil || id < 65536 || id%65536 != 0 {
		t.Fatalf("the first ID is %s: %v", users[1], err)
	}
	for container, want := range map[string]uint64{"root": id, "user": id + 1000} {
		var process unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d", w.Processes()[container]), &process); err != nil || uint64(process.Uid) != want {
			t.Errorf("on the node, container %s runs as %d, %v, want %d", container, process.Uid, err, want)
		}
	}
	return id
}

// volumesAsWithout looks at files from inside and from the node.
func volumesAsWithout(t *testing.T, w *harness.Workload) {
	t.Helper()
	if err := os.Chmod(w.Dir, 0o777); err != nil { // #nosec G302 -- for a user of the container
		t.Fatal(err)
	}
	for container, user := range map[string]string{"root": "0", "user": "1000"} {
		if got := inside(t, w, container, "cat", "/files/mode"); got != "shown" {
			t.Errorf("%s reads %q in the ConfigMap", container, got)
		}
		inside(t, w, container, "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
		for _, dir := range []string{"/disk", "/memory", "/host"} {
			inside(t, w, container, "touch", dir+"/of-"+container)
		}
		for path, want := range map[string]string{
			"/files/..data/mode": "-r--r----- 0 2000 mode", "/disk/of-" + container: "-rw-r--r-- " + user + " 2000 of-" + container,
			"/memory/of-" + container: "-rw-r--r-- " + user + " 2000 of-" + container, "/testprogram": "-rwxr-xr-x 0 0 testprogram",
		} {
			if got := inside(t, w, container, "stat", path); got != want {
				t.Errorf("%s sees %s as %q, want %q", container, path, got, want)
			}
		}
		info, err := os.Stat(filepath.Join(w.Dir, "of-"+container))
		if err != nil {
			t.Fatal(err)
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || fmt.Sprint(owner.Uid) != user {
			t.Errorf("on the node, what %s made is %+v, want user %s", container, info.Sys(), user)
		}
	}
}

// inside is what a command in the container prints.
func inside(t *testing.T, w *harness.Workload, container string, command ...string) string {
	t.Helper()
	out, err := w.Exec(container, command...)
	if err != nil {
		t.Fatalf("in container %s: %v", container, err)
	}
	return out
}

// lacksUserNamespaces is what this kernel lacks, in its own words, for containers in user
// namespaces; empty if nothing.
func lacksUserNamespaces(t *testing.T) string {
	t.Helper()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65536, Size: 65536}}
	holder := exec.CommandContext(t.Context(), "cat") // until its input ends
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		return fmt.Sprintf("no user namespace can be made here: %v", err)
	}
	defer holder.Wait() //nolint:errcheck // it ends with its input
	defer input.Close() //nolint:errcheck // a pipe
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close() //nolint:errcheck // only read
	for _, dir := range []string{env.Stack.StateDir(), "/dev/shm"} {
		if err := mapIDs(dir, users); err != nil {
			return fmt.Sprintf("%s cannot be mounted with mapped IDs: %v", dir, err)
		}
	}
	return ""
}

// mapIDs makes a mount of a folder with the IDs of a user namespace, which is seen nowhere.
func mapIDs(dir string, users *os.File) error {
	mount, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(mount) //nolint:errcheck // the mount goes with it
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}
