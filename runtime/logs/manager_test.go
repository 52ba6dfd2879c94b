// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node is a container runtime with logs in real files: a container writes to the file that
// was opened last for it.
type node struct {
	dir string

	mu         sync.Mutex
	containers []Container
	open       map[string]*os.File
	reopened   []string
	refuse     error // what ReopenLog answers
	asked      int   // how often LogPath was asked
	slow       error // what LogPath answers
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), open: map[string]*os.File{}}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, f := range n.open {
			_ = f.Close()
		}
	})
	return n
}

func (n *node) path(id string) string { return filepath.Join(n.dir, "ns_p_uid", id, "0.log") }

// run starts a container.
func (n *node) run(t *testing.T, id string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(id)), 0o750); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.containers = append(n.containers, Container{ID: id, Name: "c", PodNamespace: "ns", PodName: "p", Running: true})
	n.mu.Unlock()
	if err := n.ReopenLog(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n.reopened = nil
}

// change changes the containers of the runtime.
func (n *node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *node) LogContainers(context.Context) ([]Container, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.containers), nil
}

func (n *node) LogPath(_ context.Context, id string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if !slices.ContainsFunc(n.containers, func(c Container) bool { return c.ID == id }) {
		return "", status.Error(codes.NotFound, "no such container")
	}
	return n.path(id), n.slow
}

func (n *node) ReopenLog(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != nil {
		return n.refuse
	}
	f, err := os.OpenFile(n.path(id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if before := n.open[id]; before != nil {
		_ = before.Close()
	}
	n.open[id] = f
	n.reopened = append(n.reopened, id)
	return nil
}

// write has a container write.
func (n *node) write(t *testing.T, id, text string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.open[id].WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// files returns the contents of all files of a container, by name; those that are compressed
// are read through.
func (n *node) files(t *testing.T, id string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(n.path(id)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(n.path(id)), e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && strings.HasSuffix(e.Name(), compressed) {
			var zip *gzip.Reader
			if zip, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
				data, err = io.ReadAll(zip)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		found[e.Name()] = string(data)
	}
	return found
}

// history is all that is kept of a container's output, the oldest first.
func (n *node) history(t *testing.T, id string) []string {
	t.Helper()
	files := n.files(t, id)
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, compressed), strings.TrimSuffix(b, compressed))
	})
	var texts []string
	for _, name := range append(names[1:], names[0]) { // 0.log is the newest
		texts = append(texts, files[name])
	}
	return texts
}

// put writes a file beside the log of a container.
func (n *node) put(t *testing.T, id, suffix, text string, age time.Duration) {
	t.Helper()
	path := n.path(id) + suffix
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
		t.Fatal(err)
	}
}

func (n *node) config() Config {
	return Config{Runtime: n, MaxSize: 10, MaxFiles: 3, Root: n.dir, Logger: logr.Discard()}
}

// start runs a manager until the test ends.
func start(t *testing.T, config Config) *Manager {
	t.Helper()
	m := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// round makes one round, with what it has compressed.
func (n *node) round(t *testing.T, m *Manager) {
	t.Helper()
	m.round(t.Context())
	for {
		path, ctx := m.zip.take(t.Context())
		if path == "" {
			return
		}
		m.zip.one(ctx, path)
	}
}

// A log is rotated when it has its size, the newest rotated file stays as it is, those before
// are compressed, and there are never more files than allowed.
func TestRotation(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	config := n.config()
	config.MaxSize, config.MaxFiles = 800, 4
	m := New(config)
	output := func(i int) string { return strings.Repeat(fmt.Sprintf("output %d", i), 100) }
	for i := range 7 {
		n.write(t, "a", output(i))
		n.round(t, m)
		for name := range n.files(t, "a") { // they become old enough to be compressed
			path := filepath.Join(filepath.Dir(n.path("a")), name)
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-period)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.write(t, "a", "now")
	n.round(t, m)
	if got, want := n.history(t, "a"), []string{output(4), output(5), output(6), "now"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	zipped := 0
	for name := range n.files(t, "a") {
		if strings.HasSuffix(name, compressed) {
			zipped++
		}
	}
	if zipped != 2 {
		t.Errorf("%d files are compressed, want all but the newest rotated one: %q", zipped, slices.Collect(maps.Keys(n.files(t, "a"))))
	}
	if len(n.reopened) != 7 {
		t.Errorf("reopened %d times, want 7", len(n.reopened))
	}
	if n.asked != 1 {
		t.Errorf("the runtime was asked %d times for the path of a log", n.asked)
	}
}

// A small log, and the log of a container that does not run, stay.
func TestNoRotation(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "small")
	n.write(t, "small", "123456789")
	n.run(t, "dead")
	n.write(t, "dead", "1234567890")
	n.change(func() { n.containers[1].Running = false })
	n.round(t, New(n.config()))
	for _, id := range []string{"small", "dead"} {
		if got := n.files(t, id); len(got) != 1 {
			t.Errorf("%s has %q", id, got)
		}
	}
}

// A log that the runtime does not open again gets its name back, unless there is a new one.
func TestReopenFails(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.write(t, "a", "1234567890")
	n.refuse = errors.New("no")
	m := New(n.config())
	n.round(t, m)
	if got := n.files(t, "a"); len(got) != 1 || got["0.log"] != "1234567890" {
		t.Errorf("after a failure: %q", got)
	}
	n.refuse = nil
	n.round(t, m)
	if got := n.history(t, "a"); !slices.Equal(got, []string{"1234567890", ""}) {
		t.Errorf("after the next round: %q", got)
	}
}

// A runtime that has opened the log and did not say so loses neither file.
func TestReopenFailsBesideANewLog(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.write(t, "a", "1234567890")
	config := n.config()
	config.Runtime = silent{n}
	n.round(t, New(config))
	n.write(t, "a", "new")
	if got := n.history(t, "a"); !slices.Equal(got, []string{"1234567890", "new"}) {
		t.Errorf("kept %q", got)
	}
}

// silent opens logs and does not say so.
type silent struct{ *node }

func (s silent) ReopenLog(ctx context.Context, id string) error {
	return errors.Join(s.node.ReopenLog(ctx, id), context.DeadlineExceeded)
}

// A log that is missing is opened again.
func TestMissingLog(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	if err := os.Remove(n.path("a")); err != nil {
		t.Fatal(err)
	}
	n.round(t, New(n.config()))
	n.write(t, "a", "here")
	if got := n.files(t, "a")["0.log"]; got != "here" {
		t.Errorf("log %q", got)
	}
}

// A shim that crashed after it renamed a log, before the runtime opened it again, has left no log
// and a rotated file that grows. The next one has the log opened, and rotates on; no output is lost.
func TestCrashBeforeReopen(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	config := n.config()
	n.write(t, "a", "1234567890")
	func() {
		defer func() { _ = recover() }()
		config := config
		config.Runtime = crashing{n}
		New(config).round(t.Context())
	}()
	n.write(t, "a", " and more")
	if _, err := os.Lstat(n.path("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("after the crash there is a log: %v", err)
	}
	m := New(config)
	n.round(t, m)
	n.write(t, "a", "abcdefghij")
	n.round(t, m)
	n.write(t, "a", "now")
	if got, want := n.history(t, "a"), []string{"1234567890 and more", "abcdefghij", "now"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if len(n.reopened) != 2 {
		t.Errorf("reopened %d times, want once for the crash and once for a rotation", len(n.reopened))
	}
}

// crashing has the process crash when a log is to be opened again.
type crashing struct{ *node }

func (crashing) ReopenLog(context.Context, string) error { panic("crash") }

// A file stays until its compressed one is on the disk. A pipe stands for what cannot be brought
// there: it takes all that is written, and fsync fails.
func TestCompressedFileIsNotOnDisk(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.put(t, "a", ".1", "output", time.Hour)
	path := n.path("a") + ".1"
	pipe := path + compressed + temporary
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // nothing is written to it
	if err := compress(t.Context(), path); !errors.Is(err, unix.EINVAL) {
		t.Errorf("error %v, want that of fsync", err)
	}
	if content, err := os.ReadFile(path); string(content) != "output" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

// What a crash has left in the middle of a compression goes, and the file that was being
// compressed is compressed.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.write(t, "a", "now")
	n.put(t, "a", ".20260101-000001.gz", zipped(t, "one"), time.Hour)
	n.put(t, "a", ".20260101-000001", "one", time.Hour) // compressed, and not removed
	n.put(t, "a", ".20260101-000002", "two", time.Hour)
	n.put(t, "a", ".20260101-000002.gz.tmp", "half", time.Hour)
	n.put(t, "a", ".20260101-000003", "three", time.Hour)
	config := n.config()
	config.MaxFiles = 5
	n.round(t, New(config))
	want := map[string]string{"0.log": "now", "0.log.20260101-000001.gz": "one", "0.log.20260101-000002.gz": "two", "0.log.20260101-000003": "three"}
	if got := n.files(t, "a"); !maps.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A file that a crash has left twice counts once, so no older one has to go for it.
func TestFileThatIsThereTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	for stamp, text := range map[string]string{".20260101-000001": "one", ".20260101-000002": "two"} {
		n.put(t, "a", stamp, text, time.Hour)
		n.put(t, "a", stamp+compressed, zipped(t, text), time.Hour)
	}
	n.put(t, "a", ".20260101-000003"+compressed, zipped(t, "three"), time.Hour)
	large := strings.Repeat("n", 200)
	n.write(t, "a", large)
	config := n.config()
	config.MaxFiles, config.MaxSize = 5, 100
	n.round(t, New(config))
	if got, want := n.history(t, "a"), []string{"one", "two", "three", large, ""}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write([]byte(text)); errors.Join(err, zip.Close()) != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is beside a log and is no file of it is left alone, and no link is followed.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("01234567890"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{".20260101-000000", ".x.tmp"} {
		if err := os.Symlink(outside, n.path("a")+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(n.path("a")), os.Symlink(outside, n.path("a"))); err != nil {
		t.Fatal(err)
	}
	config := n.config()
	config.MaxFiles = 2
	n.round(t, New(config))
	for _, name := range []string{"", ".20260101-000000", ".x.tmp"} {
		if target, err := os.Readlink(n.path("a") + name); target != outside {
			t.Errorf("%q is %q, %v", name, target, err)
		}
	}
	if data, err := os.ReadFile(outside); string(data) != "01234567890" {
		t.Errorf("%q, %v", data, err)
	}
}

// A copy that a person made beside a log is no rotation of it: it neither ends rotation, nor counts
// as a file of the log, nor is removed.
func TestCopiesOfLogs(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{
		".bak", ".old", ".1", ".bak.gz", ".bak.tmp", ".20260101-000000.copy", ".20260101-000000.1", ".20260101-000000.000",
		".20260101-000000.001.5", ".20261301-000000", ".20260101-000000.bak.gz.tmp", ".99999999-999999", ".20260101-000000,5",
	} {
		t.Run(foreign, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.run(t, "a")
			text := "copy"
			if strings.HasSuffix(foreign, compressed) {
				text = zipped(t, text)
			}
			n.put(t, "a", foreign, text, time.Hour)
			config := n.config()
			config.MaxFiles, config.MaxSize = 3, 10
			m := New(config)
			for range 40 {
				n.write(t, "a", "0123456789")
				n.round(t, m)
			}
			left := n.files(t, "a")
			if left["0.log"+foreign] != "copy" || len(left) != 1+config.MaxFiles {
				t.Errorf("left %q", left)
			}
		})
	}
}

// With a log go those that rotations have made of it, and what a rotation has left that was cut off. What others
// have put beside it stays, and is no error: neither a copy that a person made nor a folder, whatever it is called.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{
		"", "0.log.bak", "0.log.old.gz", "0.logs", "10.log", "0.log.d/file", "0.log.20260101-000003/file", "0.log/file",
	} {
		t.Run(foreign, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			own := []string{".20260101-000000", ".20260101-000001.gz", ".20260101-000001.gz.tmp", ".20260101-000001.001", ""}
			if filepath.Dir(foreign) == "0.log" { // this folder is where the log would be
				own = own[:len(own)-1]
			}
			files := []string{foreign}
			for _, suffix := range own {
				files = append(files, "0.log"+suffix)
			}
			for _, file := range files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if path == dir {
					continue
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := Remove(filepath.Join(dir, "0.log")); err != nil {
					t.Error(err)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != min(len(foreign), 1) {
				t.Errorf("left %q, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(dir, foreign)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A log that cannot be removed is an error: its container stays until it can.
func TestRemoveFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(filepath.Join(file, "0.log")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("error %v", err)
	}
}

// Nothing is an error about a log whose container was removed since the last round, with the
// directory or without.
func TestRemovedContainerIsNoError(t *testing.T) {
	t.Parallel()
	for _, removed := range []string{"ns_p_uid/a/0.log", "ns_p_uid"} {
		t.Run(removed, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.run(t, "a")
			n.write(t, "a", "output")
			var said []string
			config := n.config()
			config.Logger = funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
			m := New(config)
			n.round(t, m)
			if err := os.RemoveAll(filepath.Join(n.dir, removed)); err != nil {
				t.Fatal(err)
			}
			n.change(func() { n.refuse = status.Error(codes.FailedPrecondition, "container is not running") })
			m.logs["a"].next, m.logs["a"].untidy = time.Now(), true
			m.lookAtGrowing(t.Context())
			n.change(func() { n.containers[0].Running = false })
			n.round(t, m)
			if len(said) > 0 {
				t.Errorf("logged %q", said)
			}
		})
	}
}

// Without a sign of growth all logs are looked at each second; a log is rotated in the second
// in which it gets large, not at the next round.
func TestFastGrowth(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	synctest.Test(t, func(t *testing.T) {
		m := New(n.config())
		ctx, cancel := context.WithCancel(t.Context())
		go m.loop(ctx)
		time.Sleep(3 * time.Second)
		n.write(t, "a", "1234567890")
		time.Sleep(slowest + time.Millisecond)
		synctest.Wait()
		if got := len(n.files(t, "a")); got != 2 {
			t.Errorf("%d files a second later, want 2", got)
		}
		cancel()
		synctest.Wait()
	})
}

// A log that grows is looked at when it will have its full size, within bounds.
func TestNextLook(t *testing.T) {
	t.Parallel()
	m := New(Config{MaxSize: 100})
	for name, tt := range map[string]struct {
		size, grown int64
		took, want  time.Duration
	}{
		"not growing":     {0, 0, time.Second, slowest},
		"slow":            {1, 1, time.Second, slowest},
		"half a second":   {50, 100, time.Second, 500 * time.Millisecond},
		"faster than can": {0, 1 << 40, time.Second, fastest},
		"above its size":  {200, 100, time.Second, fastest},
		"no time passed":  {0, 100, 0, slowest},
	} {
		if got := m.until(tt.size, tt.grown, tt.took); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// The watch says that a quiet log grows, once, and nothing of one that does not.
func TestWatch(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.run(t, "b")
	m := New(n.config())
	if err := m.watch.open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.watch.run(ctx)
	}()
	m.round(ctx)
	for _, l := range m.logs {
		if !l.next.IsZero() {
			t.Errorf("%s is quiet and is looked at before the next round", l.ID)
		}
	}
	n.write(t, "a", "1")
	<-m.watch.grown()
	n.write(t, "a", "2")
	if got := m.watch.take(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("growing: %q", got)
	}
	m.begin([]string{"a"})
	if l := m.logs["a"]; time.Until(l.next) > slowest || l.next.IsZero() {
		t.Errorf("it is looked at at %v", l.next)
	}
	m.lookAtGrowing(ctx)
	m.logs["a"].next = time.Now()
	m.lookAtGrowing(ctx)
	if m.logs["a"].next.IsZero() {
		t.Error("it is not looked at again while it grows")
	}
	cancel()
	<-done
	if m.watch.arm("a", n.path("a")) {
		t.Error("a watch that has ended is armed")
	}
}

// However fast a container writes, it never holds more than twice what its files may have,
// and two seconds of its output.
func TestFlood(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	config := n.config()
	config.MaxSize = 1 << 20
	start(t, config)
	line := strings.Repeat("x", 1<<16)
	var written, worst int64
	begun := time.Now()
	for took := time.Duration(0); took < 4*time.Second; took = time.Since(begun) {
		n.write(t, "a", line)
		if written += int64(len(line)); written%(1<<22) != 0 {
			continue
		}
		held := int64(0)
		entries, err := os.ReadDir(filepath.Dir(n.path("a")))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				held += info.Size()
			}
		}
		if rate := float64(written) / took.Seconds(); took > time.Second && held > 2*3<<20+int64(2*rate) {
			t.Fatalf("after %v it holds %d MiB of %d MiB", took, held>>20, written>>20)
		}
		worst = max(worst, held)
		if rate := int64(float64(written) / max(took.Seconds(), 0.001)); rate > 100<<20 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Logf("wrote %d MiB, held at most %d MiB", written>>20, worst>>20)
}

// The stamps of rotations ascend, whatever the clock does.
func TestStamps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct{ last, want string }{
		"none before":        {"", "20260102-030405"},
		"an earlier second":  {"20260102-030404", "20260102-030405"},
		"the same second":    {"20260102-030405", "20260102-030405.001"},
		"the third in it":    {"20260102-030405.001", "20260102-030405.002"},
		"the clock set back": {"20270101-000000", "20270101-000000.001"},
		"very many":          {"20270101-000000.999", "20270101-000001"},
	} {
		var files []rotated
		if tt.last != "" {
			files = []rotated{{stamp: tt.last}}
		}
		got := nextStamp(files, now)
		if got != tt.want || got <= tt.last {
			t.Errorf("%s: %q after %q, want %q", name, got, tt.last, tt.want)
		}
	}
}

// A file that is removed while it is compressed does not come back.
func TestRemovedWhileCompressed(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	n.put(t, "a", ".1", strings.Repeat("0123456789abcdef", 1<<16), time.Hour)
	m := New(n.config())
	path := n.path("a") + ".1"
	m.zip.want(path)
	_, ctx := m.zip.take(t.Context())
	if !m.zip.uses(path) || !m.zip.uses(path+compressed+temporary) {
		t.Error("a file that is compressed is not in use")
	}
	if _, err := m.removeOldest([]rotated{{path: path}}, 1); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Error("the compression was not cancelled")
	}
	m.zip.one(ctx, path)
	if got := n.files(t, "a"); len(got) != 1 {
		t.Errorf("left %q", slices.Collect(maps.Keys(got)))
	}
}

// A round leaves alone what is being compressed, and has nothing compressed that a collector may
// still read.
func TestRoundBesideACompression(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	const old, young, newest = ".20260101-000001", ".20260101-000002", ".20260101-000003"
	n.put(t, "a", old, "old", time.Hour)
	n.put(t, "a", young, "young", 0)
	n.put(t, "a", newest, "newest", 0)
	config := n.config()
	config.MaxFiles = 5
	m := New(config)
	m.zip.want(n.path("a") + old)
	path, ctx := m.zip.take(t.Context())
	n.put(t, "a", old+compressed+temporary, "half", 0)
	m.round(t.Context())
	if _, err := os.Lstat(path + compressed + temporary); err != nil {
		t.Errorf("what is being compressed: %v", err)
	}
	if waits, _ := m.zip.take(t.Context()); waits != "" {
		t.Errorf("%s is to be compressed", waits)
	}
	m.zip.one(ctx, path)
	n.put(t, "a", young, "young", period)
	n.round(t, m)
	want := map[string]string{"0.log": "", "0.log" + old + compressed: "old", "0.log" + young + compressed: "young", "0.log" + newest: "newest"}
	if got := n.files(t, "a"); !maps.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// Rotated files that a writer has filled faster than it could be rotated go when they have
// more bytes than all files may have; the newest stays.
func TestTooManyBytes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.run(t, "a")
	config := n.config()
	config.MaxFiles = 5
	m := New(config)
	for _, text := range []string{strings.Repeat("a", 30), strings.Repeat("b", 30), strings.Repeat("c", 60), "dddddddddd"} {
		n.write(t, "a", text)
		n.round(t, m)
	}
	if got := n.history(t, "a"); !slices.Equal(got, []string{"dddddddddd", ""}) {
		t.Errorf("kept %q", got)
	}
}
