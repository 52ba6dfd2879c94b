// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disks

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// interval is the time between two looks at the disk.
const interval = 20 * time.Millisecond

// sample is what a look at the disk and at a log that is flooded has seen.
type sample struct {
	at time.Time
	// used is how many bytes of the disk are in use, also by files that are removed and still open.
	used int64
	// held is how many bytes the files of the log have, and files how many there are.
	held  int64
	files []string
	// written is how many bytes have ever been written to the log.
	written int64
}

// watched are the looks at a disk while something runs.
type watched struct {
	capacity int64

	mu      sync.Mutex
	samples []sample
	stop    func()
}

// watchDisk looks at the disk and at a folder of logs until check is called.
func watchDisk(t *testing.T, folder string) *watched {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(disk, &s); err != nil {
		t.Fatal(err)
	}
	w := &watched{capacity: int64(s.Blocks) * s.Bsize}
	end, ended := make(chan struct{}), make(chan struct{})
	w.stop = sync.OnceFunc(func() {
		close(end)
		<-ended
	})
	t.Cleanup(w.stop)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(interval):
				w.look(t, folder)
			}
		}
	}()
	return w
}

func (w *watched) look(t *testing.T, folder string) {
	s := sample{at: time.Now()}
	var fs unix.Statfs_t
	entries, err := os.ReadDir(folder)
	if err == nil {
		err = unix.Statfs(disk, &fs)
	}
	if err != nil {
		t.Error(err)
		return
	}
	s.used = int64(fs.Blocks-fs.Bavail) * fs.Bsize
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			s.held += info.Size()
			s.files = append(s.files, e.Name())
		}
	}
	s.written = written(folder, s.files)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.samples); n > 0 {
		s.written = max(s.written, w.samples[n-1].written)
	}
	w.samples = append(w.samples, s)
}

// written is how many bytes a flood has written into its log: its lines are numbered. It is 0 while
// that cannot be seen.
func written(folder string, files []string) (bytes int64) {
	for _, name := range files {
		if !strings.Contains(name, ".gz") {
			bytes = max(bytes, writtenUntil(filepath.Join(folder, name)))
		}
	}
	return bytes
}

// writtenUntil is how many bytes a flood had written when it wrote the last line of a file.
func writtenUntil(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0 // it was rotated or removed meanwhile
	}
	defer f.Close() //nolint:errcheck // only read
	const tail = 4 << 10
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-tail, 0), tail))
	if err != nil {
		return 0
	}
	lines := bytes.Split(text, []byte{'\n'})
	for _, line := range slices.Backward(lines[:len(lines)-1]) {
		fields := bytes.Fields(line) // time stream tag number padding
		if len(fields) < 5 {
			continue
		}
		if n, err := strconv.ParseInt(string(fields[3]), 10, 64); err == nil {
			return (n + 1) * int64(len(line)+1)
		}
	}
	return 0
}

// usedBytes is how much of the disk is in use.
func usedBytes(t *testing.T) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(disk, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Blocks-s.Bavail) * s.Bsize
}

// logFolder is where the logs of a workload's container lie.
func logFolder(nw *v1alpha1.NodeWorkload, container string) string {
	return filepath.Join(env.Stack.PodLogDir(), nw.Namespace+"_"+nw.Name+"_"+string(nw.UID), container)
}

// all are the samples until now.
func (w *watched) all() []sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.samples)
}

// allowed is what the log may hold at each sample from which on its output of two seconds is known.
func (w *watched) allowed() (samples []sample, bytes []int64) {
	all, from := w.all(), 0
	for _, s := range all {
		if s.at.Sub(all[0].at) < 2*time.Second {
			continue
		}
		for s.at.Sub(all[from+1].at) >= 2*time.Second {
			from++
		}
		samples, bytes = append(samples, s), append(bytes, 2*maxLogSize*maxLogFiles+s.written-all[from].written)
	}
	return samples, bytes
}

func (w *watched) mostAllowed() int64 {
	_, bytes := w.allowed()
	return slices.Max(bytes)
}

func (w *watched) mostUsed() (most int64) {
	for _, s := range w.all() {
		most = max(most, s.used)
	}
	return most
}

// mostBesideLog is how much of the disk was in use at most, but for what the log has grown: images
// are collected after a pull, and the log grows later on.
func (w *watched) mostBesideLog() (most int64) {
	all := w.all()
	least := slices.MinFunc(all, func(a, b sample) int { return cmp.Compare(a.held, b.held) }).held
	for _, s := range all {
		most = max(most, s.used-(s.held-least))
	}
	return most
}

// awaitMeaning waits until the flood has written twice what it may hold: then a log that is not
// rotated is more than allowed.
func (w *watched) awaitMeaning(t *testing.T) {
	t.Helper()
	await(t, "the flood has written twice what it may hold", func() bool {
		_, allowed := w.allowed()
		all := w.all()
		return len(allowed) > 0 && all[len(all)-1].written-all[0].written > 2*slices.Max(allowed)
	})
}

// check ends the watch, and checks what the log has held.
func (w *watched) check(t *testing.T) {
	t.Helper()
	w.stop()
	samples, allowed := w.allowed()
	if len(samples) == 0 {
		t.Fatal("the disk was not watched for long enough")
	}
	var most, worst int64
	var files []string
	for i, s := range samples {
		most, worst = max(most, s.held), max(worst, s.held-allowed[i])
		if len(s.files) > len(files) {
			files = s.files
		}
	}
	if worst > 0 {
		t.Errorf("it held %d MiB, %d more than allowed at a time", most>>20, worst>>20)
	}
	if len(files) > maxLogFiles+1 { // and one that is being compressed
		t.Errorf("it had the files %q", files)
	}
	all := w.all()
	first, last := all[0], all[len(all)-1]
	rate := float64(last.written-first.written) / last.at.Sub(first.at).Seconds()
	t.Logf("%.0f MB/s for %.0f s: held at most %d MiB of %d MiB allowed; %d of %d MiB of the disk in use",
		rate/1e6, last.at.Sub(first.at).Seconds(), most>>20, slices.Max(allowed)>>20, w.mostUsed()>>20, w.capacity>>20)
}
