// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// watch says once that a log grows after it was armed for it. One that was never opened arms
// nothing.
type watch struct {
	mu     sync.Mutex
	file   *os.File         // nil if nothing is watched
	fd     int              // of file, which would block if it was asked for it
	armed  map[int32]string // container IDs by watch descriptor
	grew   []string
	signal chan struct{}
}

func (w *watch) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, w.fd, w.armed, w.signal = os.NewFile(uintptr(fd), "inotify"), fd, map[int32]string{}, make(chan struct{}, 1)
	return nil
}

// arm has the watch say once that a file is written to from now on; false if it cannot.
func (w *watch) arm(id, path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return false
	}
	wd, err := unix.InotifyAddWatch(w.fd, path, unix.IN_MODIFY|unix.IN_ONESHOT|unix.IN_DONT_FOLLOW)
	if err != nil {
		return false
	}
	w.armed[int32(wd)] = id
	return true
}

// grown is signalled when take returns something.
func (w *watch) grown() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.signal
}

// take returns the containers whose logs grow.
func (w *watch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	grew := w.grew
	w.grew = nil
	return grew
}

// run reads what the kernel says until the context is done. What is not read because of a
// failure is found by the next round.
func (w *watch) run(ctx context.Context) {
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	if file == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { w.close(file) })
	defer stop()
	buffer := make([]byte, 16<<10)
	for {
		n, err := file.Read(buffer)
		if err != nil {
			w.close(file)
			return
		}
		w.note(buffer[:n])
	}
}

// close ends the watch: from now on it arms nothing.
func (w *watch) close(file *os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == file {
		w.file = nil
		_ = file.Close() // it holds nothing
	}
}

// note takes the events of one read.
func (w *watch) note(events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		name := binary.NativeEndian.Uint32(events[12:])
		events = events[min(unix.SizeofInotifyEvent+int(name), len(events)):]
		id, known := w.armed[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			for _, id := range w.armed {
				w.grew = append(w.grew, id)
			}
		case !known:
		case mask&unix.IN_IGNORED != 0:
			delete(w.armed, wd)
		case !slices.Contains(w.grew, id):
			w.grew = append(w.grew, id)
		}
	}
	if len(w.grew) > 0 {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	}
}
