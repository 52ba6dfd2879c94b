// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cutOff begins a pull that ends without an answer of the runtime, which has what left by
// then.
func (w *world) cutOff(t *testing.T, m *Manager, left string) {
	t.Helper()
	_, err := m.For(pod("a", "pull"), app).Pull(t.Context(), func(context.Context, *Login) (string, error) {
		w.images[app] = left
		return "", status.Error(codes.Unavailable, "gone")
	})
	if err == nil {
		t.Fatal("the pull succeeded")
	}
}

// A pull that was cut off may have brought a private image; it takes no image away.
func TestPullThatWasCutOff(t *testing.T) {
	for name, tt := range map[string]struct {
		before, left string
		want         bool
	}{
		"nothing was there, nothing came":      {"", "", false},
		"an image came":                        {"", "sha256:1", true},
		"another image came":                   {"sha256:2", "sha256:1", true},
		"the image was there before":           {"sha256:1", "sha256:1", false},
		"the image was there, another was not": {"sha256:1", "sha256:2", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorld(), t.TempDir()
			w.images[app] = tt.before
			m := w.manager(dir)
			w.cutOff(t, m, tt.left)
			for _, m := range []*Manager{m, w.manager(dir), w.manager(dir)} {
				mustPull(t, m, pod("b"), tt.want)
			}
			if n := files(t, dir, pullingFolder); n != 0 {
				t.Errorf("%d intents left", n)
			}
		})
	}
}

// The same where the process ended in the middle of the pull.
func TestProcessThatEndedDuringAPull(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	w.images[app] = "sha256:1"
	w.manager(dir).begin(t.Context(), app)
	m := w.manager(dir)
	mustPull(t, m, pod("b"), false)
	m.begin(t.Context(), app)
	w.images[app] = "sha256:2"
	m = w.manager(dir)
	if err := m.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	// By another name too: it is known by what the runtime calls it.
	if must, err := m.For(pod("b"), "r.example/app@sha256:0").MustPull(t.Context(), "sha256:2"); err != nil || !must {
		t.Errorf("must pull %t, error %v", must, err)
	}
}

func files(t *testing.T, dir, folder string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(entries)
}

// A failed pull leaves nothing behind.
func TestFailedPullLeavesNoIntent(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	if _, err := w.pull(t, w.manager(dir), pod("a", "pull"), "none"); err == nil {
		t.Fatal("the pull succeeded")
	}
	if n := files(t, dir, pullingFolder) + files(t, dir, pulledFolder); n != 0 {
		t.Errorf("%d files left", n)
	}
	mustPull(t, w.manager(dir), pod("b"), false)
}

// Damaged records end nothing: who wants the image pulls it, and the record is sound again.
func TestDamagedRecords(t *testing.T) {
	for _, folder := range []string{pulledFolder, pullingFolder} {
		t.Run(folder, func(t *testing.T) {
			w, dir := newWorld(), t.TempDir()
			key := map[string]string{pulledFolder: "sha256:1", pullingFolder: app}[folder]
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, folder, fileOf(key)), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			m := w.manager(dir)
			mustPull(t, m, pod("a", "pull"), true)
			if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
				t.Fatal(err)
			}
			mustPull(t, w.manager(dir), pod("a", "pull"), false)
			mustPull(t, w.manager(dir), pod("b", "pull"), true)
		})
	}
}

// Folders that cannot be read, or written, do not end the shim: images are pulled, and the
// records are written when that works again.
func TestUnusableFolder(t *testing.T) {
	w, dir := newWorld(), filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := w.manager(dir)
	mustPull(t, m, pod("b"), true)
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	mustPull(t, m, pod("a", "pull"), false)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Manager{m, w.manager(dir)} {
		mustPull(t, m, pod("a", "pull"), false)
		mustPull(t, m, pod("b", "pull"), true)
	}
	if must, err := m.For(pod("b"), "r.example/other").MustPull(t.Context(), "sha256:2"); err != nil || must {
		t.Errorf("a preloaded image: must pull %t, error %v", must, err)
	}
}

// Records go with their images.
func TestRecordsGoWithTheImage(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	if err := m.tidy(t.Context()); err != nil || files(t, dir, pulledFolder) != 1 {
		t.Errorf("error %v, %d records while the image is there", err, files(t, dir, pulledFolder))
	}
	delete(w.images, app)
	if err := m.tidy(t.Context()); err != nil || files(t, dir, pulledFolder) != 0 {
		t.Errorf("error %v, %d records of an image that is gone", err, files(t, dir, pulledFolder))
	}
	mustPull(t, m, pod("b"), false) // who brings it again brings it for every pod
}
