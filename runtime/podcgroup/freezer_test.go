// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// frozenCgroups are the files of both versions' freezers for a container of a pod.
func frozenCgroups(t *testing.T) (mount string) {
	t.Helper()
	mount = t.TempDir()
	for file, content := range map[string]string{
		"freezer/managedworkload/mwuid/freezer.state":         "THAWED\n",
		"freezer/managedworkload/mwuid/c/freezer.state":       "FROZEN\n",
		"freezer/managedworkload/mwuid/c/below/freezer.state": "FROZEN\n",
		"freezer/managedworkload/mwuid/free/freezer.state":    "THAWED\n",
		"freezer/managedworkload/mwuid/half/freezer.state":    "FREEZING\n",
		"managedworkload/mwuid/cgroup.freeze":                 "0\n",
		"managedworkload/mwuid/c/cgroup.freeze":               "1\n",
		"managedworkload/mwuid/c/cgroup.events":               "populated 1\nfrozen 1\n",
		"managedworkload/mwuid/c/below/cgroup.freeze":         "0\n",
		"managedworkload/mwuid/c/below/cgroup.events":         "populated 1\nfrozen 1\n",
		"managedworkload/mwuid/free/cgroup.freeze":            "0\n",
		"managedworkload/mwuid/free/cgroup.events":            "populated 1\nfrozen 0\n",
	} {
		path := filepath.Join(mount, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, content)
	}
	return mount
}

// A container is paused, and is thawed, by the freezer that its first process is in. What is
// not the pod's, or cannot be read, is left alone.
func TestFreezer(t *testing.T) {
	const v1, v2 = "3:freezer:/managedworkload/mwuid/", "0::/managedworkload/mwuid/"
	for name, tt := range map[string]struct {
		content string
		paused  bool
		// thawed are the files that change, and err says that nothing may.
		thawed []string
		err    bool
	}{
		"v1":                        {content: "1:cpu:/managedworkload/mwuid/c\n" + v1 + "c\n0::/\n", paused: true, thawed: []string{"freezer/managedworkload/mwuid/c/freezer.state"}},
		"v1, not paused":            {content: v1 + "free\n", thawed: []string{"freezer/managedworkload/mwuid/free/freezer.state"}},
		"v1, below the container's": {content: v1 + "c/below\n", paused: true, thawed: []string{"freezer/managedworkload/mwuid/c/below/freezer.state", "freezer/managedworkload/mwuid/c/freezer.state"}},
		"v1, half way":              {content: v1 + "half\n", paused: true, thawed: []string{"freezer/managedworkload/mwuid/half/freezer.state"}},
		"v2":                        {content: v2 + "c\n", paused: true},
		"v2, below the container's": {content: v2 + "c/below\n", paused: true},
		"v2, not paused":            {content: v2 + "free\n"},
		"another pod's":             {content: "3:freezer:/managedworkload/mwother/c\n", err: true},
		"the pod's own cgroup":      {content: "0::/managedworkload/mwuid\n", err: true},
		"seen from another root":    {content: "0::/../managedworkload/mwuid/c\n", err: true},
		"not there":                 {content: v1 + "gone\n", err: true},
		"not what a kernel writes":  {content: "nonsense\n", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.run("id", 10, "/managedworkload/mwuid/c", "/")
			f.file(10, "cgroup", tt.content)
			m := newManager(t, Config{Parent: "/managedworkload", HostRoot: hostfs.Root(f.root), Process: f.process})
			m.cgroupMount = frozenCgroups(t)
			before := states(t, m.cgroupMount)
			if got := m.Paused(t.Context(), "uid", "id"); got != tt.paused {
				t.Errorf("paused: %t, want %t", got, tt.paused)
			}
			if resumed, err := m.Thaw(t.Context(), "uid", "id"); (err != nil) != tt.err || resumed != (len(tt.thawed) > 0) {
				t.Errorf("thaw: %t %v", resumed, err)
			}
			for path, state := range states(t, m.cgroupMount) {
				want := before[path]
				for _, thawed := range tt.thawed {
					if path == thawed {
						want = "THAWED"
					}
				}
				if strings.TrimSpace(state) != strings.TrimSpace(want) {
					t.Errorf("%s: %q, want %q", path, state, want)
				}
			}
		})
	}
}

func TestFreezerOfAnUnknownContainer(t *testing.T) {
	f := newFakeProc(t)
	for name, config := range map[string]Config{
		"no way to know": {Parent: "/managedworkload"},
		"unknown":        {Parent: "/managedworkload", HostRoot: hostfs.Root(f.root), Process: f.process},
	} {
		m := newManager(t, config)
		if _, err := m.Thaw(t.Context(), "uid", "id"); err == nil || m.Paused(t.Context(), "uid", "id") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// states are the files below the mount by which a freezer is changed.
func states(t *testing.T, mount string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*/*/*/freezer.state", "*/*/*/*/freezer.state", "*/*/*/*/*/freezer.state", "*/*/cgroup.freeze", "*/*/*/cgroup.freeze", "*/*/*/*/cgroup.freeze"} {
		files, err := filepath.Glob(filepath.Join(mount, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all[strings.TrimPrefix(file, mount+"/")] = read(t, file)
		}
	}
	return all
}
