// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// A state disk that hangs holds neither a start nor who asks what runs, and gets the latest when it
// answers again.
func TestAHangingStateDiskHoldsNothing(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	content := nodeWorkload("web", "a:1")
	uid, err := uidOf([]byte(content), "n1")
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(state, string(uid)+suffix)
	pipe := kept + statefile.TemporarySuffix // to open it waits for a reader
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	started := make(chan types.UID, 1)
	s, err := New(Config{
		Dir: dir, StateDir: state, Node: "n1", Log: logr.Discard(), Refused: func(m string) { t.Error(m) },
		Update: func(nw *template.Workload) { started <- nw.UID }, Has: func(types.UID) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if got := await(t, started, "the start"); got != uid {
		t.Errorf("started %s", got)
	}
	answers := make(chan bool, 1)
	go func() {
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
			_ = s.Publish(uid, &v1alpha1.NodeWorkloadStatus{Phase: phase})
		}
		answers <- s.Known(uid) && len(s.List()) == 1 && s.Live(types.NamespacedName{Namespace: "default", Name: "web"}) != nil
	}()
	if !await(t, answers, "an answer while the disk hangs") {
		t.Error("the workload is not known")
	}
	release(t, pipe)
	cancel()
	if err := await(t, done, "the end"); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(kept)
	if err != nil || !strings.Contains(string(data), "phase: Running") {
		t.Errorf("kept %s (%v)", data, err)
	}
}

// release lets who waits to write into a pipe go, and makes way for a file.
func release(t *testing.T, pipe string) {
	t.Helper()
	r, err := os.OpenFile(pipe, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func await[T any](t *testing.T, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(30 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
	return got
}

// What ended and runs again has the same UID. It does not run before nothing is kept of the
// instance that ended: a process that comes after a crash would end what runs.
func TestAnEndedInstanceIsNotKeptForTheNext(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	uid := s.uids()[0]
	s.remove("a.yaml")
	s.expect("web a:1: end by removal of the file a.yaml")
	s.keepNow()
	if err := s.Release(uid); err != nil {
		t.Fatal(err)
	}
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect()
	select {
	case <-s.kicked: // by the end
	default:
	}
	s.keepNow()
	await(t, s.kicked, "another look")
	s.expect("web a:1: run")
	s.Source, s.updates = nil, nil // it crashes
	s.restart(s.dir)
	s.expect("web a:1: run")
}

// The file of an instance that ended is removed at last, though it could not be at first.
func TestTheRemovalOfAnEndedInstanceIsTriedAgain(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	uid := s.uids()[0]
	if err := s.Release(uid); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(s.pathOf(uid), "full")
	if err := os.MkdirAll(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.keepAll() == nil || !s.stale[uid] || !s.unkept[uid] {
		t.Error("what could not be removed is taken for removed")
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	s.keepNow()
	if _, err := os.Stat(s.pathOf(uid)); !errors.Is(err, os.ErrNotExist) || s.stale[uid] {
		t.Errorf("what ended is kept (%v)", err)
	}
}

// What a panic kept from being written is written at the next try.
func TestAPanicLosesNothingToWrite(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	w := s.workloads[s.uids()[0]]
	nw := w.nw
	w.nw = nil
	if panics.Contain(logr.Discard(), "keeping", s.keepAll) == nil {
		t.Fatal("no panic")
	}
	w.nw = nw
	s.keepNow()
	if _, err := os.Stat(s.pathOf(nw.UID)); err != nil {
		t.Error(err)
	}
}
