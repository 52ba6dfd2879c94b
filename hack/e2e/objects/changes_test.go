// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// Files follow their objects within a minute, but not those of a subPath.
func testChanges(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("settings", "mode", "first") + secret("key", "key", hidden+"-first"))
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  volumeMounts:
  - {name: files, mountPath: /files}
  - {name: files, mountPath: /one/mode, subPath: mode}
  - {name: key, mountPath: /key}
volumes:
- {name: files, configMap: {name: settings}}
- {name: key, secret: {secretName: key, defaultMode: 0400}}`)
	w.AwaitReady()
	w.AwaitExec("first", "c", "cat", "/files/mode")
	w.AwaitExec(hidden+"-first", "c", "cat", "/key/key")
	w.KubectlApply(configMap("settings", "mode", "second") + secret("key", "key", hidden+"-second"))
	for path, want := range map[string]string{"/files/mode": "second", "/key/key": hidden + "-second"} {
		if took := w.AwaitExec(want, "c", "cat", path); took > time.Minute {
			t.Errorf("%s followed after %s", path, took)
		}
	}
	w.AwaitExec("first", "c", "cat", "/one/mode")
	// Made again, it is another object.
	w.MustKubectl("", "delete", "configmap", "settings")
	w.KubectlApply(configMap("settings", "mode", "again"))
	w.AwaitExec("again", "c", "cat", "/files/mode")
	if kills := w.Node().Status.Kills; len(kills) > 0 {
		t.Errorf("a change of an object killed: %v", kills)
	}
}

// Variables are those of the container's start.
func testVariables(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("all", "A", "a") + secret("one", "key", hidden+"-one"))
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  args: [serve, --http=:8080]
  envFrom: [{prefix: P_, configMapRef: {name: all}}, {secretRef: {name: none, optional: true}}]
  env: [{name: KEY, valueFrom: {secretKeyRef: {name: one, key: key}}}]`)
	w.AwaitReady()
	w.AwaitExec("a", "c", "env", "P_A")
	w.AwaitExec(hidden+"-one", "c", "env", "KEY")
	w.KubectlApply(configMap("all", "A", "b"))
	restart(t, w)
	w.AwaitExec("b", "c", "env", "P_A")
}

// restart ends the container, which its policy then starts again.
func restart(t *testing.T, w *harness.Workload) {
	t.Helper()
	restartOf(t, w, "c")
}

// restartOf is restart for the workload's first container, by its name.
func restartOf(t *testing.T, w *harness.Workload, container string) {
	t.Helper()
	before := w.Node().Status.ContainerStatuses[0].ContainerID
	_, _ = w.Exec(container, "signal", "KILL", "1") // it ends with the container
	_, _ = w.Exec(container, "http-get", "http://127.0.0.1:8080/exit?code=1")
	w.Await("the container runs again", func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses
		return len(c) > 0 && c[0].State.Running != nil && c[0].ContainerID != before
	})
}

// Of an object that is deleted what is there stays; a container that starts waits for it.
func testDeleted(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(configMap("settings", "mode", "there") + configMap("file", "a", "kept") + configMap("other", "a", "before"))
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  args: [serve, --http=:8080]
  env: [{name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}]
  volumeMounts: [{name: file, mountPath: /file}, {name: other, mountPath: /other}]
volumes: [{name: file, configMap: {name: file}}, {name: other, configMap: {name: other}}]`)
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	w.MustKubectl("", "delete", "configmap", "settings", "file")
	// When a later change is on the node, so is the deletion.
	w.KubectlApply(configMap("other", "a", "after"))
	w.AwaitExec("after", "c", "cat", "/other/a")
	w.AwaitExec("kept", "c", "cat", "/file/a")
	if now := w.Node().Status.ContainerStatuses[0].ContainerID; now != before {
		t.Errorf("container %s, want %s as before", now, before)
	}
	w.KubectlApply(configMap("file", "a", "again"))
	w.AwaitExec("again", "c", "cat", "/file/a")
	_, _ = w.Exec("c", "http-get", "http://127.0.0.1:8080/exit?code=1")
	w.Await("the container waits", waits("CreateContainerConfigError", `configmap "settings" not found`))
	w.KubectlApply(configMap("settings", "mode", "again"))
	w.AwaitExec("again", "c", "env", "MODE")
}

// Objects of a megabyte, five of them in one workload, arrive whole, and so does a change.
func testLarge(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	const size = 1000 << 10
	text := first() + "containers: [{name: c, image: " + testImage + ", volumeMounts: ["
	volumes := ""
	for i := range 5 {
		data := strings.Repeat(strconv.Itoa(i), size)
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: fmt.Sprintf("large-%d", i)}, Data: map[string]string{"data": data}}
		if err := env.Kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("{name: v%d, mountPath: /large/%d},", i, i)
		volumes += fmt.Sprintf("- {name: v%d, configMap: {name: large-%d}}\n", i, i)
	}
	w.Apply(text + "]}]\nvolumes:\n" + volumes)
	w.AwaitReady()
	for i := range 5 {
		w.AwaitExec(strings.Repeat(strconv.Itoa(i), size), "c", "cat", fmt.Sprintf("/large/%d/data", i))
	}
	changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "large-4"}, Data: map[string]string{"data": strings.Repeat("x", size)}}
	if err := env.Kube.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	w.AwaitExec(changed.Data["data"], "c", "cat", "/large/4/data")
}

func configMap(name, key, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %s}\n", name, key, value)
}

func secret(name, key, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {%s: %s}\n", name, key, value)
}
