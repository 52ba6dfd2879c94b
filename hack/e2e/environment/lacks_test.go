// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// handlers are those that the node's runtime lists, with what each can do; "" is its default.
func handlers(t *testing.T) map[string]*runtimeapi.RuntimeHandlerFeatures {
	t.Helper()
	cri, err := env.Stack.Nodes[0].CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // nothing was written
	s, err := cri.Status(t.Context(), &runtimeapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*runtimeapi.RuntimeHandlerFeatures{}
	for _, h := range s.GetRuntimeHandlers() {
		found[h.GetName()] = h.GetFeatures()
	}
	return found
}

// lacking checks that the node refuses a template that needs what the node lacks: nothing of a
// new workload is started, and what ran before such a change stays.
func lacking(t *testing.T, needs func(*corev1.PodSpec), reason, message string) {
	t.Helper()
	plain := fmt.Sprintf("containers: [{name: c, image: %s, args: [serve]}]", testImage)
	runs, fresh := env.Apply(t, plain), env.New(t)
	template := fresh.Parse(plain)
	needs(&template.Spec)
	fresh.ApplyTemplate(template)

	nw := awaitRefused(t, fresh, reason, message)
	if nw.Status.Summary != reason || nw.Status.Phase != corev1.PodPending || len(nw.Status.ContainerStatuses) != 0 || sandboxes(t, fresh.Namespace) != 0 {
		t.Errorf("status %+v and %d sandboxes, want nothing of it started", nw.Status, sandboxes(t, fresh.Namespace))
	}
	before := runs.AwaitReady().Status.ContainerStatuses[0].ContainerID
	runs.Change(func(template *corev1.PodTemplateSpec) { needs(&template.Spec) })
	nw = awaitRefused(t, runs, reason, message)
	if now := nw.Status.ContainerStatuses[0]; now.ContainerID != before || now.State.Running == nil || len(nw.Status.Kills) != 0 {
		t.Errorf("%s ran, now %+v, kills %+v", before, now, nw.Status.Kills)
	}
}

// sandboxes is how many the runtime has in a namespace.
func sandboxes(t *testing.T, namespace string) int {
	t.Helper()
	cri, err := env.Stack.Nodes[0].CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // nothing was written
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetItems())
}

// A profile of AppArmor needs a kernel that has AppArmor, and the profile.
func TestAppArmorProfileThatIsMissing(t *testing.T) {
	t.Parallel()
	const profile = "mw-e2e-none"
	message := "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	if enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err == nil && bytes.HasPrefix(enabled, []byte("Y")) {
		message = fmt.Sprintf("Cannot enforce AppArmor: profile %q is not loaded", profile)
	}
	lacking(t, func(spec *corev1.PodSpec) {
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{
			Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new(profile),
		}}
	}, "AppArmor", message)
}

// A RuntimeClass may name a handler that the node's runtime does not have.
func TestUnknownRuntimeHandler(t *testing.T) {
	t.Parallel()
	if len(handlers(t)) == 0 {
		t.Skip("the runtime does not list its handlers")
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "unknown-handler"}, Handler: "mw-e2e-none"}
	if err := env.Kube.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	lacking(t, func(spec *corev1.PodSpec) { spec.RuntimeClassName = &class.Name },
		"RuntimeHandlerUnknown", `no runtime for "mw-e2e-none" is configured`)
}

// A mount that is to be read-only with all that is mounted below it needs a runtime that can do
// that; one that can does it.
func TestRecursiveReadOnlyMount(t *testing.T) {
	t.Parallel()
	if handlers(t)[""].GetRecursiveReadOnlyMounts() {
		readOnlyBelow(t)
		return
	}
	lacking(t, func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{
			Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled),
		}}
	}, "PodFeatureUnsupported", `volume "v" requested recursive read-only mode, but it is not supported by the runtime`)
}

// readOnlyBelow checks from inside that what is mounted below such a mount cannot be written.
func readOnlyBelow(t *testing.T) {
	t.Helper()
	w := env.New(t)
	below := filepath.Join(w.Dir, "tree", "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) })
	commands := []string{"touch /v/new", "touch /v/below/new"}
	container := func(name, recursive string) string {
		return fmt.Sprintf("- {name: %s, image: %s, args: %s, volumeMounts: [{name: v, mountPath: /v, readOnly: true%s}]}\n",
			name, testImage, show(commands...), recursive)
	}
	w.Apply("containers:\n" + container("all", ", recursiveReadOnly: Enabled") + container("top", "") +
		"volumes: [{name: v, hostPath: {path: $DIR/tree}}]")
	nw := w.AwaitReady()
	const denied = "error: open %s: read-only file system"
	top, all := fmt.Sprintf(denied, "/v/new"), fmt.Sprintf(denied, "/v/below/new")
	expect(t, shown(t, w, "all", commands...), map[string]string{commands[0]: top, commands[1]: all})
	expect(t, shown(t, w, "top", commands...), map[string]string{commands[0]: top, commands[1]: ""})
	if mounts := nw.Status.ContainerStatuses[0].VolumeMounts; len(mounts) != 1 || mounts[0].RecursiveReadOnly == nil ||
		*mounts[0].RecursiveReadOnly != corev1.RecursiveReadOnlyEnabled {
		t.Errorf("the status says %+v of the mount", mounts)
	}
}
