// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// A shim in a container resolves the node's paths below where it sees the node's
// root, and the node's own symbolic links with that as the root.
func TestHostPathInAContainerResolvesLinksOfTheNode(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/data", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "hosts"), []byte("node"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := hostfs.Root(dir)
	if got, err := node.ReadFile("/link/hosts"); err != nil || string(got) != "node" {
		t.Errorf("read %q, %v; want the node's file", got, err)
	}
	for path, wanted := range map[string]corev1.HostPathType{
		"/link":          corev1.HostPathDirectory,
		"/link/made/too": corev1.HostPathDirectoryOrCreate,
		"/link/file":     corev1.HostPathFileOrCreate,
		"/link/hosts":    corev1.HostPathFile,
	} {
		if err := checkHostPath(node, path, wanted); err != nil {
			t.Errorf("%s as %s: %v", path, wanted, err)
		}
	}
	for _, made := range []string{"data/made/too", "data/file"} {
		if _, err := os.Stat(filepath.Join(dir, made)); err != nil {
			t.Errorf("not made on the node: %v", err)
		}
	}
	if err := checkHostPath(node, "/link/hosts", corev1.HostPathDirectory); err == nil {
		t.Error("a file passes as a directory")
	}
}
