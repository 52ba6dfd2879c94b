// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a start waits for another process that is just taking
// the same stack down.
const lockWait = 10 * time.Second

// state is what another process needs to take the stack down.
type state struct {
	file string
	mu   sync.Mutex

	BootID string `json:"bootID"`
	// Bound tells that the stack was not to outlive the process that started it.
	Bound bool `json:"bound"`
	// Nodes is the number of nodes for shims.
	Nodes     int                `json:"nodes"`
	Processes map[string]process `json:"processes"`
	Before    before             `json:"before"`
}

// process is a component's process. The start time (in clock ticks since boot)
// keeps a number that was given to another process since from being killed.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

func newState(l layout, opts Options) (*state, error) {
	bootID, err := readBootID()
	if err != nil {
		return nil, err
	}
	for _, node := range l.shimNodes(opts.Nodes) {
		if err := node.create(); err != nil {
			return nil, err
		}
	}
	host, err := observeHost(l)
	if err != nil {
		return nil, err
	}
	s := &state{
		file: l.stateFile(), BootID: bootID, Bound: !opts.Detach, Nodes: opts.Nodes,
		Processes: map[string]process{}, Before: host,
	}
	return s, s.save()
}

// loadState returns nil when the folder holds no stack.
func loadState(l layout) (*state, error) {
	data, err := os.ReadFile(l.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &state{file: l.stateFile()}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", l.stateFile(), err)
	}
	bootID, err := readBootID()
	if err != nil {
		return nil, err
	}
	if s.BootID != bootID || s.Processes == nil {
		s.Processes = map[string]process{}
	}
	return s, nil
}

func readBootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(data)), err
}

func (s *state) record(name string, p process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes[name] = p
	return s.save()
}

func (s *state) recorded(name string) (p process, recorded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, recorded = s.Processes[name]
	return p, recorded
}

func (s *state) forget(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Processes, name)
	if _, err := os.Stat(filepath.Dir(s.file)); errors.Is(err, os.ErrNotExist) {
		return nil // stopped after the folder is gone
	}
	return s.save()
}

// save replaces the file at once, so that a crash never leaves half of one.
func (s *state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// acquire locks the state folder for as long as the file is open. A folder with
// something else in it is refused, because Stop removes the folder.
func acquire(ctx context.Context, l layout) (*os.File, error) {
	deadline := time.Now().Add(lockWait)
	for {
		if err := refuseForeign(l); err != nil {
			return nil, err
		}
		file, err := tryLock(l)
		if err != nil || file != nil {
			return file, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the stack in %s is in use by %s", l.dir, owner(l))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock returns nil when another process has the lock.
func tryLock(l layout) (*os.File, error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(l.lockFile(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && sameFile(file, l.lockFile()) {
		return file, errors.Join(file.Truncate(0), writeOwner(file))
	}
	closeErr := file.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", l.lockFile(), err), closeErr)
	}
	return nil, closeErr // locked, or removed by the one that had it
}

// release unlocks the state folder, and removes it if nothing is left in it.
func release(l layout, lock *os.File) error {
	var err error
	if entries, readErr := os.ReadDir(l.dir); readErr == nil && len(entries) == 1 {
		err = errors.Join(os.Remove(l.lockFile()), os.Remove(l.dir))
	}
	if closeErr := lock.Close(); !errors.Is(closeErr, os.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	return err
}

func sameFile(file *os.File, path string) bool {
	held, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

func writeOwner(file *os.File) error {
	_, err := fmt.Fprintf(file, "process %d (%s)", os.Getpid(), filepath.Base(os.Args[0]))
	return err
}

func owner(l layout) string {
	data, err := os.ReadFile(l.lockFile())
	if err != nil || len(data) == 0 {
		return "another process"
	}
	return string(data)
}

func refuseForeign(l layout) error {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Name() == "state.json" || e.Name() == "lock" {
			return nil
		}
		names = append(names, e.Name())
	}
	if len(names) > 0 {
		return fmt.Errorf("%s is not a stack's folder: it holds %s", l.dir, strings.Join(names, ", "))
	}
	return nil
}
