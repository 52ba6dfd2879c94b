// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestUsersAndGroups(t *testing.T) {
	t.Parallel()
	commands := []string{"id", "stat /disk", "stat /memory", "touch /disk/mine", "stat /disk/mine", "touch /root/x"}
	mounts := "[{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]"
	w := env.Apply(t, fmt.Sprintf(`
securityContext: {runAsUser: 1000, runAsGroup: 1001, fsGroup: 2000, supplementalGroups: [3000], runAsNonRoot: true}
containers:
- {name: pod, image: %[1]s, args: %[2]s, volumeMounts: %[3]s}
- {name: own, image: %[1]s, args: %[2]s, securityContext: {runAsUser: 1500, runAsGroup: 1501}}
volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]`, testImage, show(commands...), mounts))
	w.AwaitReady()
	got := shown(t, w, "pod", commands...)
	if uid, gid := status(t, got["id"], "Uid"), status(t, got["id"], "Gid"); uid != "1000 1000 1000 1000" || gid != "1001 1001 1001 1001" {
		t.Errorf("user %s, group %s", uid, gid)
	}
	groups := " " + status(t, got["id"], "Groups") + " "
	contains(t, "groups", groups, " 2000 ")
	contains(t, "groups", groups, " 3000 ")
	expect(t, got, map[string]string{
		"stat /disk":       "dgrwxrwxrwx 0 2000 disk",
		"stat /memory":     "dgtrwxrwxrwx 0 2000 memory",
		"touch /disk/mine": "",
		"stat /disk/mine":  "-rw-r--r-- 1000 2000 mine", // the folder hands its group down
		"touch /root/x":    "error: open /root/x: permission denied",
	})
	own := shown(t, w, "own", commands...)
	if uid, gid := status(t, own["id"], "Uid"), status(t, own["id"], "Gid"); uid != "1500 1500 1500 1500" || gid != "1501 1501 1501 1501" {
		t.Errorf("own user %s, group %s", uid, gid)
	}
}

func TestImageUsers(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: root, image: %[1]s, args: %[2]s}
- {name: number, image: "managedworkload.dev/testprogram:nonroot", args: %[2]s, securityContext: {runAsNonRoot: true}}
- {name: name, image: "managedworkload.dev/testprogram:named-user", args: %[2]s}`, testImage, show("id")))
	w.AwaitReady()
	for container, want := range map[string]string{"root": "0", "number": "65532", "name": "65532"} {
		if got := status(t, shown(t, w, container, "id")["id"], "Uid"); got != strings.Join([]string{want, want, want, want}, " ") {
			t.Errorf("%s runs as %s, want %s", container, got, want)
		}
	}
	// The image's user is in a group by /etc/group of the image.
	contains(t, "groups", " "+status(t, shown(t, w, "name", "id")["id"], "Groups")+" ", " 65533 ")
}

// runAsNonRoot refuses what runs as root, with the kubelet's words.
func TestNonRootIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ image, security, want string }{
		"the image's root":   {testImage, "{runAsNonRoot: true}", "container has runAsNonRoot and image will run as root"},
		"the template's own": {testImage, "{runAsNonRoot: true, runAsUser: 0}", "container's runAsUser breaks non-root policy"},
		"a user's name": {"managedworkload.dev/testprogram:named-user", "{runAsNonRoot: true}",
			"container has runAsNonRoot and image has non-numeric user (nonroot), cannot verify user is non-root"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, fmt.Sprintf("containers: [{name: c, image: %q, securityContext: %s}]", tc.image, tc.security))
			nw := w.Await("it is refused", func(nw *v1alpha1.NodeWorkload) bool {
				c := nw.Status.ContainerStatuses
				return len(c) == 1 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CreateContainerConfigError"
			})
			want := fmt.Sprintf("%s (pod: %q, container: c)", tc.want, fmt.Sprintf("%s_%s(%s)", nw.Name, nw.Namespace, nw.UID))
			if got := nw.Status.ContainerStatuses[0].State.Waiting.Message; got != want {
				t.Errorf("message %q, want %q", got, want)
			}
			if nw.Status.Summary != "CreateContainerConfigError" {
				t.Errorf("summary %q", nw.Status.Summary)
			}
			w.AwaitEvent("Failed", "Error: "+want)
		})
	}
}

// capabilities as /proc/self/status shows them.
const (
	capsDefault = "00000000a80425fb"
	capsNetBind = "0000000000000400"
)

func TestRights(t *testing.T) {
	t.Parallel()
	commands := []string{"id", "touch /x", "touch /tmp/x", "ls /dev", "mount-tmpfs /tmp/m"}
	container := func(name, security string) string {
		return fmt.Sprintf("- {name: %s, image: %s, args: %s, securityContext: %s}\n", name, testImage, show(commands...), security)
	}
	w := env.Apply(t, "containers:\n"+
		container("plain", "{}")+
		container("dropped", "{capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}")+
		container("confined", "{allowPrivilegeEscalation: false, seccompProfile: {type: RuntimeDefault}}")+
		container("unconfined", "{seccompProfile: {type: Unconfined}}")+
		container("readonly", "{readOnlyRootFilesystem: true}")+
		container("privileged", "{privileged: true}"))
	w.AwaitReady()
	inside := map[string]map[string]string{}
	for _, name := range []string{"plain", "dropped", "confined", "unconfined", "readonly", "privileged"} {
		inside[name] = shown(t, w, name, commands...)
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ container, key, want string }{
		{"plain", "CapEff", capsDefault},
		{"plain", "CapBnd", capsDefault},
		{"plain", "NoNewPrivs", "0"},
		{"plain", "Seccomp", "0"},
		{"dropped", "CapEff", capsNetBind},
		{"dropped", "CapBnd", capsNetBind},
		{"confined", "NoNewPrivs", "1"},
		{"confined", "Seccomp", "2"},
		{"unconfined", "Seccomp", "0"},
		{"privileged", "CapEff", status(t, string(own), "CapEff")},
		{"privileged", "Seccomp", "0"},
	}
	for _, tc := range tests {
		if got := status(t, inside[tc.container]["id"], tc.key); got != tc.want {
			t.Errorf("%s of %s: %s, want %s", tc.key, tc.container, got, tc.want)
		}
	}
	const readOnly = "error: open /x: read-only file system"
	expect(t, inside["plain"], map[string]string{"touch /x": "", "touch /tmp/x": "", "mount-tmpfs /tmp/m": "error: operation not permitted"})
	expect(t, inside["readonly"], map[string]string{"touch /x": readOnly, "touch /tmp/x": strings.Replace(readOnly, "/x", "/tmp/x", 1)})
	expect(t, inside["privileged"], map[string]string{"mount-tmpfs /tmp/m": ""})
	if plain, privileged := strings.Contains(inside["plain"]["ls /dev"], " kmsg"), strings.Contains(inside["privileged"]["ls /dev"], " kmsg"); plain || !privileged {
		t.Errorf("sees the node's devices: plain %t, privileged %t", plain, privileged)
	}
}

// A seccomp profile of the node, below the shim's seccomp folder.
func TestSeccompLocalhost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(env.Stack.ShimStateDir(), "seccomp")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	profile := `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["symlink", "unlink", "unlinkat", "rmdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}`
	if err := os.WriteFile(filepath.Join(dir, "no-unlink.json"), []byte(profile), 0o644); err != nil {
		t.Fatal(err)
	}
	commands := []string{"id", "touch /tmp/x", "rm /tmp/x"}
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: c, image: %s, args: %s, securityContext: {seccompProfile: {type: Localhost, localhostProfile: no-unlink.json}}}`, testImage, show(commands...)))
	w.AwaitReady()
	got := shown(t, w, "c", commands...)
	if mode := status(t, got["id"], "Seccomp"); mode != "2" {
		t.Errorf("seccomp mode %s", mode)
	}
	expect(t, got, map[string]string{"touch /tmp/x": ""})
	contains(t, "rm", got["rm /tmp/x"], "operation not supported")

	missing := env.New(t)
	missing.Name = "missing"
	missing.Apply(fmt.Sprintf(`
containers:
- {name: c, image: %s, securityContext: {seccompProfile: {type: Localhost, localhostProfile: none.json}}}`, testImage))
	nw := missing.Await("it does not start", func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses
		return len(c) == 1 && c[0].State.Waiting != nil && strings.Contains(c[0].State.Waiting.Message, "none.json")
	})
	if nw.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", nw.Status.Phase)
	}
}
