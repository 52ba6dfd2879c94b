// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// unwritable has a file be neither written nor removed until mended is called.
func unwritable(t *testing.T, dir string, key fileKey) (mended func()) {
	t.Helper()
	inTheWay := filepath.Join(dir, key.folder, key.file+statefile.TemporarySuffix)
	if err := os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(inTheWay); err != nil {
			t.Error(err)
		}
	}
}

func recordKey(ref string) fileKey   { return fileKey{pulledFolder, fileOf(ref)} }
func intentKey(image string) fileKey { return fileKey{pullingFolder, fileOf(image)} }

// byDigest is a name that an image keeps when its tag moves.
const byDigest = "r.example/app@" + digest

// pullPrivate pulls the image for namespace a while its record cannot be written.
func (w *world) pullPrivate(t *testing.T, m *Manager, dir string) (mended func()) {
	t.Helper()
	mended = unwritable(t, dir, recordKey("sha256:1"))
	if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
		t.Fatal(err)
	}
	w.bring("sha256:1", byDigest)
	return mended
}

func tidy(t *testing.T, m *Manager) {
	t.Helper()
	if err := m.tidy(t.Context()); err != nil {
		t.Error(err)
	}
}

// isPrivate checks that a pod without Secrets may use the image by none of its names.
func (w *world) isPrivate(t *testing.T, m *Manager) {
	t.Helper()
	for _, name := range []string{app, byDigest, "sha256:1"} {
		if must, err := m.For(pod("b"), name).MustPull(t.Context(), "sha256:1"); err != nil || !must {
			t.Errorf("%s: must pull %t, error %v", name, must, err)
		}
	}
	if _, known := m.preloaded["sha256:1"]; known {
		t.Error("the image counts as preloaded")
	}
}

// refused is a pull of a workload that the registry does not let in.
func (w *world) refused(t *testing.T, m *Manager) {
	t.Helper()
	if _, err := w.pull(t, m, pod("b"), "none"); err == nil {
		t.Error("the pull succeeded")
	}
}

// moved is a pull of another namespace after the tag was moved to another image.
func (w *world) moved(t *testing.T, m *Manager) {
	t.Helper()
	w.pushed = "sha256:2"
	if _, err := w.pull(t, m, pod("b", "pull"), "of-b"); err != nil {
		t.Error(err)
	}
}

// A private image whose record cannot be written stays private, whatever other workloads do with its name
// meanwhile: what is on the disk says that it was pulled, until the record is there.
func TestIntentStaysUntilTheRecordIsWritten(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, w *world, m *Manager, dir string){
		"nothing": func(*testing.T, *world, *Manager, string) {},
		"a pull is refused": func(t *testing.T, w *world, m *Manager, _ string) {
			w.refused(t, m)
		},
		"pulls are refused": func(t *testing.T, w *world, m *Manager, _ string) {
			w.refused(t, m)
			w.refused(t, m)
		},
		"a pull is cut off": func(t *testing.T, w *world, m *Manager, _ string) {
			w.cutOff(t, m, "sha256:1")
		},
		"a pull is cut off, and the tag is gone": func(t *testing.T, w *world, m *Manager, _ string) {
			w.cutOff(t, m, "")
		},
		"a pull cannot begin": func(t *testing.T, w *world, m *Manager, dir string) {
			defer unwritable(t, dir, preloadedFile)()
			w.bring("sha256:2", "r.example/imported:v1")
			w.refused(t, m)
		},
		"the tag moves, and the record of the other image is written": func(t *testing.T, w *world, m *Manager, _ string) {
			w.moved(t, m)
		},
		"the tag moves, and a pull is refused": func(t *testing.T, w *world, m *Manager, _ string) {
			w.moved(t, m)
			w.refused(t, m)
		},
		"the tag moves, and the record of the other image cannot be written either": func(t *testing.T, w *world, m *Manager, dir string) {
			defer unwritable(t, dir, recordKey("sha256:2"))()
			w.moved(t, m)
		},
		"another workload pulls the same content": func(t *testing.T, w *world, m *Manager, _ string) {
			if _, err := w.pull(t, m, pod("b", "pull"), "of-b"); err != nil {
				t.Error(err)
			}
		},
		"the shim restarts, and a pull is refused": func(t *testing.T, w *world, _ *Manager, dir string) {
			next := w.manager(dir)
			tidy(t, next)
			w.refused(t, next)
			time.Sleep(lateness)
			tidy(t, next)
		},
		"the tag moves, the shim restarts, and a pull is refused": func(t *testing.T, w *world, m *Manager, dir string) {
			w.moved(t, m)
			next := w.manager(dir)
			w.refused(t, next)
			time.Sleep(lateness)
			tidy(t, next)
		},
		"the shim restarts, and the tag moves": func(t *testing.T, w *world, _ *Manager, dir string) {
			next := w.manager(dir)
			w.moved(t, next)
			time.Sleep(lateness)
			tidy(t, next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(), t.TempDir()
				m := w.manager(dir)
				mended := w.pullPrivate(t, m, dir)
				meanwhile(t, w, m, dir)
				time.Sleep(lateness)
				tidy(t, m)
				if files(t, dir, pullingFolder) != 1 {
					t.Error("nothing on the disk says that the image was pulled")
				}
				mended()
				for range 2 { // the next process, and the one after that
					next := w.manager(dir)
					tidy(t, next)
					w.isPrivate(t, next)
					time.Sleep(lateness)
					tidy(t, next)
					w.isPrivate(t, next)
				}
				if files(t, dir, pullingFolder) != 0 {
					t.Error("the intent stays although the image is known to be private")
				}
			})
		})
	}
}

// A record that is written late takes the intent away, and none that another record needs.
func TestIntentGoesWithTheLateRecord(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	mendedFirst, mendedSecond := w.pullPrivate(t, m, dir), unwritable(t, dir, recordKey("sha256:2"))
	w.moved(t, m)
	for i, mended := range []func(){mendedSecond, mendedFirst} {
		if n := files(t, dir, pullingFolder); n != 1 {
			t.Errorf("%d intents with %d records to write", n, 2-i)
		}
		mended()
		tidy(t, m)
	}
	if n := files(t, dir, pullingFolder); n != 0 {
		t.Errorf("%d intents with both records on the disk", n)
	}
	next := w.manager(dir)
	tidy(t, next)
	mustPull(t, next, pod("a", "pull"), false)
	w.isPrivate(t, next)
}

// An intent does not stay for an image that has a record on the disk: what is imported with a name of that
// repository counts as imported.
func TestIntentOfTheProcessBeforeGoesWhereTheRecordIsThere(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, w *world, m *Manager, dir string){
		"another grant was not written": func(t *testing.T, w *world, m *Manager, dir string) {
			if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
				t.Fatal(err)
			}
			w.bring("sha256:1", byDigest)
			defer unwritable(t, dir, recordKey("sha256:1"))()
			if _, err := w.pull(t, m, pod("b", "pull"), "of-b"); err != nil {
				t.Fatal(err)
			}
		},
		"the process ended before the intent was removed": func(t *testing.T, w *world, m *Manager, dir string) {
			mended := w.pullPrivate(t, m, dir)
			file := m.disk.path(pullingFolder, fileOf(app))
			intent, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			mended()
			tidy(t, m)
			if err := os.WriteFile(file, intent, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(), t.TempDir()
				before(t, w, w.manager(dir), dir)
				if n := files(t, dir, pullingFolder); n != 1 {
					t.Fatalf("%d intents before the start", n)
				}
				m := w.manager(dir)
				time.Sleep(lateness)
				tidy(t, m)
				if n := files(t, dir, pullingFolder); n != 0 {
					t.Errorf("%d intents although the record is on the disk", n)
				}
				const imported = "r.example/app:imported"
				w.bring("sha256:2", imported)
				tidy(t, m)
				if must, err := m.For(pod("b"), imported).MustPull(t.Context(), "sha256:2"); err != nil || must {
					t.Errorf("an imported image: must pull %t, error %v", must, err)
				}
				if _, known := m.preloaded["sha256:2"]; !known {
					t.Error("an imported image does not count as preloaded")
				}
				mustPull(t, m, pod("a", "pull"), false)
				mustPull(t, m, pod("b", "pull"), true)
				w.isPrivate(t, m)
			})
		})
	}
}

// An image that is removed takes its intent along once nothing on the disk is about it; who imports it after that
// brings it for every pod.
func TestIntentGoesWithTheImage(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	mended := w.pullPrivate(t, m, dir)
	delete(w.images, app)
	delete(w.images, byDigest)
	tidy(t, m)
	if n := files(t, dir, pullingFolder); n != 1 {
		t.Errorf("%d intents while it is not known what the record on the disk says", n)
	}
	mended()
	tidy(t, m)
	if n := files(t, dir, pullingFolder); n != 0 {
		t.Errorf("%d intents of an image that is gone", n)
	}
	w.bring("sha256:1", app)
	for _, m := range []*Manager{m, w.manager(dir)} {
		tidy(t, m)
		mustPull(t, m, pod("b"), false)
	}
}

// While what a pull has brought can be written nowhere, no other pull of the name begins: the next process could
// find only one of the images.
func TestNoSecondPullBesideOneThatIsNotOnTheDisk(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	mendedRecord := unwritable(t, dir, recordKey("sha256:1"))
	var mendedIntent func()
	if _, err := m.For(pod("a", "pull"), app).Pull(t.Context(), func(context.Context, *Login) (string, error) {
		mendedIntent = unwritable(t, dir, intentKey(app))
		w.bring("sha256:1", app, byDigest)
		return "sha256:1", nil
	}); err != nil {
		t.Fatal(err)
	}
	w.pushed = "sha256:2"
	if users, err := w.pull(t, m, pod("b", "pull"), "of-b"); len(users) > 0 || err == nil ||
		!strings.HasPrefix(err.Error(), "failed to record image pull intent: ") {
		t.Errorf("pulled with %q, error %v", users, err)
	}
	mendedIntent()
	w.moved(t, m)
	mendedRecord()
	next := w.manager(dir)
	tidy(t, next)
	w.isPrivate(t, next)
}

// While the folder of records cannot be read, nothing is known of the intents either, and nothing is pulled: the
// intent of the pull would replace the only file that says what an earlier pull has brought.
func TestNoPullBesideRecordsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(), t.TempDir()
		m, folder := w.manager(dir), filepath.Join(dir, pulledFolder)
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pull(t, m, pod("a", "pull"), "of-a"); err != nil {
			t.Fatal(err)
		}
		w.bring("sha256:1", byDigest)
		next := w.manager(dir)
		w.pushed = "sha256:2"
		if users, err := w.pull(t, next, pod("b", "pull"), "of-b"); len(users) > 0 || err == nil ||
			!strings.HasPrefix(err.Error(), "failed to record image pull intent: ") {
			t.Errorf("pulled with %q, error %v", users, err)
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		w.moved(t, next)
		time.Sleep(lateness)
		for _, m := range []*Manager{next, w.manager(dir)} {
			tidy(t, m)
			w.isPrivate(t, m)
		}
	})
}

// A pull and Run may both read again what could not be read. What was learned since the first of them did stays known.
func TestRecordsAreReadAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(), t.TempDir()
		folder := filepath.Join(dir, pulledFolder)
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		m := w.manager(dir)
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		w.bring("sha256:1", app)
		var second sync.WaitGroup
		if err := m.patience.Do(t.Context(), dir, func() error {
			second.Go(func() { tidy(t, m) })
			synctest.Wait() // it waits for its turn at the disk
			first, err := readAll(m.disk)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.memory = first
			m.preloaded = preloaded{"sha256:1": {"r.example/app"}}
			m.records["sha256:1"] = &record{Ref: "sha256:1"}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		second.Wait()
		mustPull(t, m, pod("b"), false)
	})
}

// A pull that was cut off with one Secret may bring the image although it was refused with the next.
func TestPullThatWasCutOffWithOneOfItsSecrets(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	w.secrets["a/other"] = dockerConfig("other", `{"r.example":`+user("other")+`}`)
	m := w.manager(dir)
	access := m.For(pod("a", "pull", "other"), app)
	if err := access.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	if _, err := access.Pull(t.Context(), func(context.Context, *Login) (string, error) {
		if attempts++; attempts == 1 {
			return "", status.Error(codes.DeadlineExceeded, "no answer")
		}
		return "", status.Error(codes.Unknown, "denied")
	}); err == nil || attempts != 2 {
		t.Fatalf("%d attempts, error %v", attempts, err)
	}
	w.bring("sha256:1", app, byDigest)
	for _, m := range []*Manager{m, w.manager(dir)} {
		tidy(t, m)
		w.isPrivate(t, m)
	}
}

// A pull that was cut off may bring its image after another one of the name has succeeded.
func TestImageOfACutOffPullComesAfterAnother(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	m := w.manager(dir)
	w.cutOff(t, m, "")
	w.moved(t, m)
	tidy(t, m)
	w.bring("sha256:1", app, byDigest)
	for _, m := range []*Manager{m, w.manager(dir)} {
		tidy(t, m)
		w.isPrivate(t, m)
	}
}

// What a pull of the process before has brought may lose its name at once to what another workload pulls.
func TestTagMovesAwayFromWhatTheProcessBeforePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(), t.TempDir()
		if err := w.manager(dir).begin(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		w.bring("sha256:1", app, byDigest)
		m := w.manager(dir)
		w.moved(t, m)
		time.Sleep(lateness)
		for _, m := range []*Manager{m, w.manager(dir)} {
			tidy(t, m)
			w.isPrivate(t, m)
		}
	})
}
