// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Entry is a line that a container or a hook wrote into a journal.
type Entry struct {
	Time time.Time
	Text string
}

// Journal reads what the containers wrote into a file of $DIR, in order: the
// test program with --log-file, hooks with "testprogram append".
func (w *Workload) Journal(name string) []Entry {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatalf("read journal: %v", err)
	}
	var entries []Entry
	for line := range strings.Lines(string(data)) {
		stamp, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			w.t.Fatalf("journal %s: line %q: %v", name, line, err)
		}
		entries = append(entries, Entry{at, text})
	}
	return entries
}

// Find returns the journal's entries that begin with a text.
func (w *Workload) Find(name, prefix string) []Entry {
	w.t.Helper()
	return slices.DeleteFunc(w.Journal(name), func(e Entry) bool { return !strings.HasPrefix(e.Text, prefix) })
}

// AwaitFind waits until the journal has n entries that begin with a text. A file
// has no watch that reaches into a container, so it is read again and again.
func (w *Workload) AwaitFind(name, prefix string, n int) []Entry {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	for {
		if found := w.Find(name, prefix); len(found) >= n {
			return found
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("journal %s has not %d entries %q: %v\n%s", name, n, prefix, w.Journal(name), w.env.tails())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Texts are the entries without their times.
func Texts(entries []Entry) []string {
	texts := make([]string, 0, len(entries))
	for _, e := range entries {
		texts = append(texts, e.Text)
	}
	return texts
}

// AwaitEvent waits for an Event about the NodeWorkload.
func (w *Workload) AwaitEvent(reason, message string) corev1.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	for {
		events := w.Events()
		for _, e := range events {
			if e.Reason == reason && strings.Contains(e.Message, message) {
				return e
			}
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("no event %s %q among %v", reason, message, events)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Events are those of the test's namespace.
func (w *Workload) Events() []corev1.Event {
	w.t.Helper()
	list := &corev1.EventList{}
	if err := w.env.Kube.List(w.t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
		w.t.Fatalf("list events: %v", err)
	}
	return list.Items
}
