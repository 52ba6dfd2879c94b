// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linked returns the links of a directory.
func linked(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Each log has a link in the kubelet's form as long as its container is there. One that a
// kubelet removed comes back; what is not ours stays.
func TestLinks(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "abc")
	config := n.config()
	config.Links, config.MaxSize = filepath.Join(t.TempDir(), "containers"), -1
	foreign := filepath.Join(config.Links, "p_ns_c-foreign.log")
	stale := filepath.Join(config.Links, "p_ns_c-stale.log")
	if err := errors.Join(
		os.Mkdir(config.Links, 0o750),
		os.Symlink("/var/log/pods/ns_p_uid/c/0.log", foreign),
		os.Symlink(filepath.Join(n.dir, "ns_p_uid/c/0.log"), stale),
		os.WriteFile(filepath.Join(config.Links, "file.log"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	m := New(config)
	n.round(t, m)
	own := "p_ns_c-abc.log"
	if got, want := linked(t, config.Links), []string{"file.log", own, "p_ns_c-foreign.log"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	if target, err := os.Readlink(filepath.Join(config.Links, own)); target != n.path("abc") {
		t.Errorf("the link points to %q, %v", target, err)
	}
	if err := os.Remove(filepath.Join(config.Links, own)); err != nil {
		t.Fatal(err)
	}
	n.round(t, m)
	if got := linked(t, config.Links); !slices.Contains(got, own) {
		t.Errorf("a link that was removed is not made again: %q", got)
	}
	n.change(func() { n.containers[0].Running = false })
	n.round(t, m)
	if got := linked(t, config.Links); !slices.Contains(got, own) {
		t.Errorf("the link of a container that has ended is gone: %q", got)
	}
	n.change(func() { n.containers = nil })
	n.round(t, m)
	if got, want := linked(t, config.Links), []string{"file.log", "p_ns_c-foreign.log"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
}

// The links of an earlier process stay while the runtime does not say where a container's log is;
// those of containers that are gone go.
func TestLinksWhileTheRuntimeIsSlow(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "abc")
	n.run(t, "gone")
	config := n.config()
	config.Links, config.MaxSize = t.TempDir(), -1
	n.round(t, New(config))
	n.change(func() { n.containers, n.slow = n.containers[:1], context.DeadlineExceeded })
	m := New(config)
	m.round(t.Context())
	if got := linked(t, config.Links); !slices.Equal(got, []string{"p_ns_c-abc.log"}) {
		t.Errorf("links %q after a restart, want that of the container that is there", got)
	}
}

// A name that is taken by what is not ours stays, and so does one that took the place of ours.
func TestForeignLinks(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "abc")
	config := n.config()
	config.Links = t.TempDir()
	own := filepath.Join(config.Links, "p_ns_c-abc.log")
	if err := os.Symlink("/elsewhere", own); err != nil {
		t.Fatal(err)
	}
	m := New(config)
	n.round(t, m)
	n.change(func() { n.containers = nil })
	n.round(t, m)
	if target, err := os.Readlink(own); target != "/elsewhere" {
		t.Errorf("it points to %q, %v", target, err)
	}
}

// The directory is made again when it is gone.
func TestLinkDirectoryIsGone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "abc")
	config := n.config()
	config.Links = filepath.Join(t.TempDir(), "containers")
	m := New(config)
	n.round(t, m)
	if err := os.RemoveAll(config.Links); err != nil {
		t.Fatal(err)
	}
	n.round(t, m)
	n.round(t, m)
	if got := linked(t, config.Links); len(got) != 1 {
		t.Errorf("links %q", got)
	}
}

// A name that is too long for a file is cut as the kubelet cuts it.
func TestLongLinkName(t *testing.T) {
	t.Parallel()
	c := Container{ID: strings.Repeat("0", 64), Name: strings.Repeat("c", 63), PodName: strings.Repeat("p", 200), PodNamespace: "ns"}
	name := linkName(c)
	if len(name) != 255 || !strings.HasSuffix(name, ".log") || !strings.HasPrefix(name, c.PodName+"_ns_ccc") {
		t.Errorf("%d characters: %q", len(name), name)
	}
}
