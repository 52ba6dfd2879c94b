// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package static tests workloads from files on the node: a shim and a containerd, and no
// API server. Its tests run one after the other: they restart the shim.
package static

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var (
	env *harness.Env
	dir string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if dir, err = os.MkdirTemp("", "mw-static-"); err != nil {
		fmt.Fprintln(os.Stderr, "make the directory:", err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in a temporary folder
	return harness.Run(m, &env, localstack.Options{StaticDir: dir})
}

// manifest is a workload that writes what happens to it into a journal.
func manifest(name, version, journal string) string {
	return fmt.Sprintf(`
apiVersion: managedworkload.dev/v1alpha1
kind: ManagedWorkload
metadata: {name: %s}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: c
        image: %s
        args: [serve, --log-file=/dir/c]
        env: [{name: VERSION, value: "%s"}]
        volumeMounts: [{name: dir, mountPath: /dir}]
        lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, preStop]}}}
      volumes: [{name: dir, hostPath: {path: %s}}]
`, name, localstack.ImageV1, version, journal)
}

// write writes a file of the directory at once, as people should.
func write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// kept are the workloads as the shim keeps them for people.
func kept(t *testing.T) []template.Workload {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(env.Stack.ShimStateDir(), "static", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var found []template.Workload
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // it has just ended
		}
		nw := template.Workload{}
		if err == nil {
			err = yaml.Unmarshal(data, &nw)
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, nw)
	}
	return found
}

// await waits until what is kept is as wanted.
func await(t *testing.T, what string, done func([]template.Workload) bool) []template.Workload {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	changes, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close() //nolint:errcheck // the test is over
	if err := changes.Add(filepath.Join(env.Stack.ShimStateDir(), "static")); err != nil {
		t.Fatal(err)
	}
	for {
		found := kept(t)
		if done(found) {
			return found
		}
		select {
		case <-changes.Events:
		case <-ctx.Done():
			data, _ := yaml.Marshal(found)
			t.Fatalf("%s: never seen; last:\n%s\nshim:\n%s", what, data, env.Stack.Shim.Tail())
		}
	}
}

// awaitReady waits for the one instance of a workload that runs a version.
func awaitReady(t *testing.T, version string) (containerID string) {
	t.Helper()
	await(t, "version "+version+" ready", func(found []template.Workload) bool {
		for _, nw := range found {
			env := nw.Template.Spec.Containers[0].Env
			isReady := slices.ContainsFunc(nw.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
				containerID = c.ContainerID
				return c.Ready
			})
			if isReady && nw.DeletionTimestamp == nil && slices.Contains(env, corev1.EnvVar{Name: "VERSION", Value: version}) {
				return true
			}
		}
		return false
	})
	return containerID
}

func awaitNone(t *testing.T) {
	t.Helper()
	await(t, "nothing left", func(found []template.Workload) bool { return len(found) == 0 })
}

func journal(t *testing.T, in string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(in, "c"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// awaitLog waits for a line in the shim's log, where the events are.
func awaitLog(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(harness.Timeout)
	for {
		text, err := env.Stack.Shim.Log()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(line, w) }) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the shim's log has no line with %q:\n%s", want, env.Stack.Shim.Tail())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func restart(t *testing.T) {
	t.Helper()
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A file runs, survives the shim, is replaced with grace when it changes, is kept while it
// cannot be read, and ends with grace when it goes.
func TestAWorkloadFollowsItsFile(t *testing.T) {
	logs := t.TempDir()
	write(t, "web.yaml", manifest("web", "1", logs))
	first := awaitReady(t, "1")
	restart(t)
	if again := awaitReady(t, "1"); again != first {
		t.Errorf("container %s was replaced by %s when the shim was restarted", first, again)
	}
	write(t, "web.yaml", "not a workload")
	awaitLog(t, "StaticWorkloadRefused", "web.yaml is not accepted")
	if again := awaitReady(t, "1"); again != first {
		t.Errorf("container %s was replaced by %s for a file that is not accepted", first, again)
	}
	write(t, "web.yaml", manifest("web", "2", logs))
	if second := awaitReady(t, "2"); second == first {
		t.Error("the changed workload has the same container")
	}
	text := journal(t, logs)
	if !strings.Contains(text, "preStop") || !strings.Contains(text, "SIGTERM") {
		t.Errorf("the first instance was not ended with grace:\n%s", text)
	}
	remove(t, "web.yaml")
	awaitNone(t)
	awaitLog(t, `"Killed"`, "terminated by removal of the file", "exited 0")
	if n := strings.Count(journal(t, logs), "preStop"); n != 2 {
		t.Errorf("%d preStop hooks ran, want 2", n)
	}
}

// The file of the README runs, with an image that needs no registry.
func TestFileOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "    echo '")
	file, rest, _ := strings.Cut(rest, "' > ")
	path, _, _ := strings.Cut(rest, "\n")
	if path != "/etc/managedworkload/static/hello.yaml" {
		t.Fatalf("the README writes no file, or %q", path)
	}
	const image, command = `"docker.io/library/busybox:1.37"`, "command: [sleep, infinity]"
	if !strings.Contains(file, image) || !strings.Contains(file, command) {
		t.Fatalf("the README's file is %s", file)
	}
	write(t, "hello.yaml", strings.NewReplacer(image, localstack.ImageV1, command, "args: [serve]").Replace(file))
	await(t, "the container of the README ready", func(found []template.Workload) bool {
		return len(found) == 1 && len(found[0].Status.ContainerStatuses) == 1 && found[0].Status.ContainerStatuses[0].Ready
	})
	remove(t, "hello.yaml")
	awaitNone(t)
}

// A file that goes while the shim is away ends its workload with the grace period and the
// hook that it had.
func TestAFileThatGoesWhileTheShimIsAway(t *testing.T) {
	logs := t.TempDir()
	write(t, "web.yaml", manifest("web", "1", logs))
	awaitReady(t, "1")
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	remove(t, "web.yaml")
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitNone(t)
	if text := journal(t, logs); !strings.Contains(text, "preStop") {
		t.Errorf("it was not ended with grace:\n%s", text)
	}
}

// A file that comes back soon after its workload has ended runs at once, and one that goes before that
// runs leaves nothing: what comes from files has the same UID each time.
func TestAFileThatComesAndGoes(t *testing.T) {
	logs := t.TempDir()
	content := manifest("web", "1", logs)
	write(t, "web.yaml", content)
	awaitReady(t, "1")
	for range 2 {
		remove(t, "web.yaml")
		awaitNone(t)
		write(t, "web.yaml", content)
		await(t, "it is to run", func(found []template.Workload) bool { return len(found) == 1 })
	}
	begun := time.Now()
	awaitReady(t, "1")
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("it runs %s after its file came back", took)
	}
	remove(t, "web.yaml")
	awaitNone(t)
}

// A workload that was kept, and of which the shim has no checkpoint, as after a power cut, is taken
// over by the next shim.
func TestAWorkloadWithoutACheckpoint(t *testing.T) {
	write(t, "web.yaml", manifest("web", "1", t.TempDir()))
	first := awaitReady(t, "1")
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkpoints, err := filepath.Glob(filepath.Join(env.Stack.ShimStateDir(), "workloads", v1alpha1.StaticUIDPrefix+"*"))
	if err != nil || len(checkpoints) == 0 {
		t.Fatalf("checkpoints %q: %v", checkpoints, err)
	}
	for _, checkpoint := range checkpoints {
		if err := os.Remove(checkpoint); err != nil {
			t.Fatal(err)
		}
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, env.Stack.Shim.Tail())
	}
	if again := awaitReady(t, "1"); again != first {
		t.Errorf("container %s was replaced by %s", first, again)
	}
	remove(t, "web.yaml")
	awaitNone(t)
}

// With an API server that cannot be reached, as at boot, files run nevertheless.
func TestBeforeTheAPIServerIsReachable(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const unreachable = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(unreachable), 0o600); err != nil {
		t.Fatal(err)
	}
	shim := env.Stack.Shim
	args := shim.Args()
	if err := shim.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	shim.SetArgs(append(args, "--kubeconfig="+kubeconfig)...)
	if err := shim.Launch(); err != nil { // it is not ready without an API server
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shim.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		shim.SetArgs(args...)
		if err := shim.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	write(t, "web.yaml", manifest("web", "1", t.TempDir()))
	awaitReady(t, "1")
	remove(t, "web.yaml")
	awaitNone(t)
}
