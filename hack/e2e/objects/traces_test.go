// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// testNothingKept looks for what was secret in the tests before: in every file that shim and
// manager wrote outside of a tmpfs, in what they wrote into the API, and where core files
// would lie.
func testNothingKept(t *testing.T) {
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(secret("key", "key", hidden+"-kept"))
	w.Apply(first() + `
containers:
- name: c
  image: ` + testImage + `
  volumeMounts: [{name: key, mountPath: /key}]
volumes: [{name: key, secret: {secretName: key}}]`)
	w.AwaitReady()
	// What runs now is in memory, where it is found: the search finds what there is.
	files := filepath.Join(env.Stack.ShimStateDir(), "pods", string(w.Node().UID), "volumes")
	if found, _ := search(t, files, needles(hidden), true); len(found) == 0 {
		t.Errorf("the search does not find the secret's own file below %s", files)
	}
	token, err := w.Exec("c", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
	if err != nil {
		t.Fatalf("the container's token: %v", err)
	}
	secrets := append(needles(hidden), []byte(token))
	folders := []string{filepath.Join(env.Stack.StateDir(), "logs"), "/var/lib/systemd/coredump", "/var/crash", coreFolder(t)}
	for _, node := range env.Stack.Nodes {
		folders = append(folders, node.ShimStateDir(), node.PodLogDir())
	}
	read := 0
	for _, folder := range folders {
		found, files := search(t, folder, secrets, false)
		read += files
		for _, file := range found {
			t.Errorf("%s holds a secret", file)
		}
	}
	if read < 10 {
		t.Errorf("only %d files were read in %q", read, folders)
	}
	for _, kinds := range []string{"mw,nw,managedworkloadrevisions", "events", "leases,nodes"} {
		out := w.MustKubectl("", "get", kinds, "--all-namespaces", "-o", "yaml")
		for _, secret := range secrets {
			if strings.Contains(out, string(secret)) {
				t.Errorf("one of %s holds a secret", kinds)
			}
		}
	}
}

// needles are the forms in which a text may stand in a file.
func needles(text string) [][]byte {
	// Of base64, what is the same wherever the text begins.
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	return [][]byte{[]byte(text), []byte(encoded[:len(encoded)/4*4-4])}
}

// search returns the files below a folder that hold one of the texts, and how many it has
// read. Files of a tmpfs, if they are not wanted, are left out.
func search(t *testing.T, folder string, texts [][]byte, inMemory bool) (found []string, read int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it ended meanwhile, or there is none
		}
		if err != nil {
			return err
		}
		if entry.IsDir() && !inMemory {
			var of unix.Statfs_t
			if err := unix.Statfs(path, &of); err == nil && of.Type == unix.TMPFS_MAGIC {
				return fs.SkipDir
			}
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path) // #nosec G304 -- of the stack
		if err != nil {
			return nil //nolint:nilerr // it ended meanwhile
		}
		read++
		for _, text := range texts {
			if bytes.Contains(data, text) {
				found = append(found, path)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, read
}

// coreFolder is where the kernel writes core files: a folder, or files of that name where the
// programs of the stack run.
func coreFolder(t *testing.T) string {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	if folder := filepath.Dir(strings.TrimSpace(string(pattern))); filepath.IsAbs(folder) {
		return folder
	}
	return filepath.Join(env.Stack.StateDir(), strings.TrimSpace(string(pattern)))
}
