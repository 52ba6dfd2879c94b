// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/statefile"
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

// A pull that was cut off may have brought a private image; it takes no image away,
// and that it has brought nothing is known when it cannot bring anything later.
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
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(), t.TempDir()
				w.images[app] = tt.before
				m := w.manager(dir)
				w.cutOff(t, m, tt.left)
				after := []*Manager{m, w.manager(dir), w.manager(dir)}
				time.Sleep(lateness)
				for _, m := range after {
					mustPull(t, m, pod("b"), tt.want)
				}
				if n := files(t, dir, pullingFolder); n != 0 {
					t.Errorf("%d intents left", n)
				}
			})
		})
	}
}

// The same where the process ended in the middle of the pull.
func TestProcessThatEndedDuringAPull(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	w.images[app] = "sha256:1"
	if err := w.manager(dir).begin(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	m := w.manager(dir)
	mustPull(t, m, pod("b"), false)
	if err := m.begin(t.Context(), app); err != nil {
		t.Fatal(err)
	}
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

// What a pull of the process before has brought is in doubt, whether its file is sound or damaged: also where it
// comes only after this process has looked at the images, and after the pull of another workload was refused.
func TestImageOfAPullOfTheProcessBefore(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			for _, refused := range []bool{false, true} {
				t.Run(fmt.Sprintf("damaged %t, late %t, refused %t", damaged, late, refused), func(t *testing.T) {
					w, dir := newWorld(), t.TempDir()
					w.bring("sha256:2", "r.example/there")
					if err := w.manager(dir).begin(t.Context(), app); err != nil {
						t.Fatal(err)
					}
					if damaged {
						if err := os.WriteFile(filepath.Join(dir, pullingFolder, fileOf(app)), []byte("{"), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					m := w.manager(dir)
					if late {
						if err := m.tidy(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					w.bring("sha256:1", app)
					if refused {
						if _, err := w.pull(t, m, pod("b", "pull"), "none"); err == nil {
							t.Fatal("the pull succeeded")
						}
					}
					for _, m := range []*Manager{m, w.manager(dir)} {
						if err := m.tidy(t.Context()); err != nil {
							t.Fatal(err)
						}
						mustPull(t, m, pod("b"), true)
						if must, err := m.For(pod("b"), "r.example/there").MustPull(t.Context(), "sha256:2"); err != nil || must {
							t.Errorf("a preloaded image: must pull %t, error %v", must, err)
						}
					}
				})
			}
		}
	}
}

// Folders that cannot be read, or written, do not end the shim. Nothing is pulled until that works
// again, as in the kubelet: the next process would take a private image for everyone's.
func TestUnusableFolder(t *testing.T) {
	w, dir := newWorld(), filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := w.manager(dir)
	mustPull(t, m, pod("b"), true)
	if users, err := w.pull(t, m, pod("a", "pull"), "of-a"); len(users) > 0 || err == nil ||
		!strings.HasPrefix(err.Error(), "failed to record image pull intent: ") {
		t.Fatalf("pulled with %q, error %v", users, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
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

// stuck has the file of a record be written to a pipe, so that it does not reach the disk. fails lets
// the next write fail; it returns once one is under way and fails.
func stuck(t *testing.T, dir, folder, file string) (fails func()) {
	t.Helper()
	pipe := filepath.Join(dir, folder, file+statefile.TemporarySuffix)
	if err := os.MkdirAll(filepath.Dir(pipe), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.Open(pipe) // returns when there is a writer
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, f)
		_ = f.Close()
	}
}

// The record of a pull with a Secret does not reach the disk. The process that pulled it knows
// better, also while the record is being written once more; the next one pulls the image again.
func TestRecordThatIsNotWritten(t *testing.T) {
	dir, w := t.TempDir(), newWorld()
	m := w.manager(dir)
	fails := stuck(t, dir, pulledFolder, fileOf("sha256:1"))
	var beside sync.WaitGroup
	beside.Go(fails)
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	beside.Wait()
	mustPull(t, m, pod("a", "pull"), false)
	beside.Go(func() { _ = m.tidy(t.Context()) }) // waits for a reader
	beside.Go(func() {
		for begun := time.Now(); time.Since(begun) < 400*time.Millisecond; { // some of it while the record is being written
			mustPull(t, m, pod("b"), true)
		}
	})
	time.Sleep(200 * time.Millisecond) // nothing tells when the write waits for its reader
	fails()
	beside.Wait()
	if files(t, dir, pullingFolder) != 1 {
		t.Error("while the record is not on the disk, nothing there says that the image was pulled")
	}
	if err := os.Remove(filepath.Join(dir, pulledFolder, fileOf("sha256:1")+statefile.TemporarySuffix)); err != nil {
		t.Fatal(err)
	}
	mustPull(t, w.manager(dir), pod("b"), true)
	if err := m.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files(t, dir, pullingFolder) != 0 {
		t.Error("the intent stays although the record is on the disk")
	}
	mustPull(t, w.manager(dir), pod("a", "pull"), false)
	mustPull(t, w.manager(dir), pod("b"), true)
}

// On a full disk nothing is pulled: whoever comes next would know nothing of it.
func TestPullOnAFullDisk(t *testing.T) {
	dir, w := t.TempDir(), newWorld()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=1"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	m := w.manager(dir)
	if users, err := w.pull(t, m, pod("a", "pull"), "of-a"); err == nil || len(users) > 0 {
		t.Errorf("pulled with %q, error %v", users, err)
	}
	w.images["r.example/there"] = "sha256:1"
	mustPull(t, m, pod("b"), false)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes=100"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Error(err)
	}
}

// What the runtime calls a new image cannot be asked for: nobody uses it unasked.
func TestImageIDIsNotKnownAfterAPull(t *testing.T) {
	dir, w := t.TempDir(), newWorld()
	m := w.manager(dir)
	access := m.For(pod("a", "pull"), app)
	if _, err := access.Pull(t.Context(), func(context.Context, *Login) (string, error) {
		w.images[app], w.away = "sha256:1", status.Error(codes.Unavailable, "gone")
		return "r.example/app@sha256:0", nil
	}); err != nil {
		t.Fatal(err)
	}
	w.away = nil
	mustPull(t, m, pod("b"), true)
	mustPull(t, w.manager(dir), pod("b"), true)
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
