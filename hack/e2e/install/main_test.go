// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install deploys ManagedWorkload as docs/operations.md tells a person to:
// the image of the Dockerfile, config/default through a kustomization, a Deployment
// and a DaemonSet on a real kubelet's node, a containerd beside it configured with
// the text of the document, and the way out again. Its tests are steps: each builds
// on those before it.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

var env *harness.Env

const (
	root      = "../../.."
	nodeName  = "n1"
	system    = localstack.SystemNamespace
	testImage = localstack.ImageV1
	image     = "registry.example.com/managedworkload"
	manager   = "deployment/managedworkload-manager"
	shims     = "daemonset/managedworkload-shim"
	reserved  = "daemonset/managedworkload-reserved"
)

func TestMain(m *testing.M) {
	runtimeConfig, err := documented("toml")
	network, networkErr := documented("json")
	if err = errors.Join(err, networkErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	before := traces()
	status := harness.Run(m, &env, localstack.Options{
		NodeName: nodeName, KubeletNodeName: nodeName,
		WithKubelet: true, WithControllerManager: true, WithScheduler: true, WithoutConfig: true,
		ForPods: true, HostRuntime: runtimeConfig, HostNetwork: network, ProductImages: []string{image + ":v1", image + ":v2"},
	})
	left := slices.DeleteFunc(traces(), func(trace string) bool { return slices.Contains(before, trace) })
	if len(left) > 0 && status == 0 {
		fmt.Fprintf(os.Stderr, "left on this machine: %q\n", left)
		status = 1
	}
	os.Exit(status)
}

// traces are what the stack of an installation leaves on the machine that runs the
// tests, unless it cleans up.
func traces() []string {
	var found []string
	for _, pattern := range []string{
		"/*/managedworkload", "/var/*/managedworkload", "/sys/fs/cgroup/managedworkload", "/sys/fs/cgroup/*/managedworkload", "/sys/class/net/mws-*",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a pattern that is wrong
		}
		found = append(found, paths...)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, mount := range mounts {
		switch shared := strings.Contains(mount.Optional, "shared:"); {
		case strings.Contains(mount.Mountpoint, "/managedworkload"):
			found = append(found, "mount "+mount.Mountpoint)
		case shared && slices.Contains([]string{"/", "/etc", "/run", "/var", "/var/lib", "/var/log"}, mount.Mountpoint):
			found = append(found, "shared mount "+mount.Mountpoint)
		}
	}
	return found
}

// documented is the only block of a language in docs/operations.md.
func documented(language string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		return "", err
	}
	before, rest, _ := strings.Cut(string(content), "\n```"+language+"\n")
	block, after, closed := strings.Cut(rest, "\n```\n")
	if !closed || before == "" || strings.Contains(after, "\n```"+language+"\n") {
		return "", fmt.Errorf("docs/operations.md has not one block of %s", language)
	}
	return block + "\n", nil
}

// apply writes the kustomization of the document for a version of the image, with
// components of config/, and applies it.
func apply(t *testing.T, version string, components ...string) {
	t.Helper()
	dir := filepath.Join(env.Stack.Scratch(), "managedworkload")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs(filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.Rel(dir, base); err != nil {
		t.Fatal(err)
	}
	text, err := documented("yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("REPOSITORY/config/default", base, "newTag: v1", "newTag: "+version).Replace(text)
	if len(components) > 0 {
		text += "components:\n"
	}
	for _, component := range components {
		text += "- " + filepath.Join(filepath.Dir(base), "components", component) + "\n"
	}
	// No kube-proxy routes the webhook's Service here: it fails open, and at once.
	patches, err := env.Stack.WebhookPatches()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(components, "objects") {
		objects, err := env.Stack.ObjectsPatches()
		if err != nil {
			t.Fatal(err)
		}
		patches = append(patches, objects...)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text+patches.Text()), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-k", dir)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	out, err := env.Stack.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rolledOut waits until what config/ deploys runs as it is applied.
func rolledOut(t *testing.T, what string) {
	t.Helper()
	kubectl(t, "rollout", "status", "-n", system, what, "--timeout="+harness.Timeout.String())
}
