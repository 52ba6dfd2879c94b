// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyTimeout = 90 * time.Second
	readyPoll    = 50 * time.Millisecond
	stopGrace    = 20 * time.Second
	tailLines    = 25
)

// Component is one program of the stack.
type Component struct {
	name  string
	path  string
	args  []string
	env   []string
	ready func(context.Context) error
	stack *Stack

	mu      sync.Mutex
	running *child
}

// child is a started process and what became of it.
type child struct {
	process
	cmd  *exec.Cmd
	done chan struct{} // closed once it was waited for
	err  error
}

// Start starts the program and waits until it is ready. It appends to the log.
func (c *Component) Start(ctx context.Context) error {
	if err := c.Launch(); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// Launch starts the program without waiting until it is ready.
func (c *Component) Launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil && c.running.alive() {
		return fmt.Errorf("%s runs already", c.name)
	}
	log, err := os.OpenFile(c.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.path, c.args...) // it ends by Stop and Kill, not with the context of its start
	cmd.Env = append(os.Environ(), stateVariable+"="+c.stack.layout.dir)
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Dir = c.stack.layout.dir
	cmd.Stdout, cmd.Stderr = log, log
	err = errors.Join(c.stack.launcher.start(cmd), log.Close())
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	p, err := lookUp(cmd.Process.Pid)
	if err != nil {
		p = process{PID: cmd.Process.Pid} // gone already: readiness will tell
	}
	started := &child{process: p, cmd: cmd, done: make(chan struct{})}
	go func() {
		started.err = cmd.Wait()
		close(started.done)
	}()
	c.running = started
	return c.stack.state.record(c.name, p)
}

// WaitReady returns once the program answers, or with an error that ends with
// its log when it exits or does not get ready.
func (c *Component) WaitReady(ctx context.Context) error {
	current := c.current()
	if current == nil {
		return fmt.Errorf("%s was not started", c.name)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-current.done:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", c.name, current.err, c.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not get ready: %w\n%s", c.name, err, c.Tail())
		case <-time.After(readyPoll):
		}
	}
}

// Stop ends the program with SIGTERM, or SIGKILL when it does not heed that. A
// program that does not run is stopped.
func (c *Component) Stop(ctx context.Context) error { return c.end(ctx, stopGrace) }

// Kill ends the program with SIGKILL.
func (c *Component) Kill(ctx context.Context) error { return c.end(ctx, 0) }

func (c *Component) end(ctx context.Context, grace time.Duration) error {
	current := c.current()
	if current == nil {
		return nil
	}
	if err := current.terminate(ctx, grace); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-current.done
	return c.stack.state.forget(c.name)
}

// Signal sends a signal, such as SIGSTOP, without waiting for anything.
func (c *Component) Signal(sig syscall.Signal) error {
	current := c.current()
	if current == nil || !current.alive() {
		return fmt.Errorf("%s does not run", c.name)
	}
	return unix.Kill(current.PID, sig)
}

// Exited is closed once the program that was started last has ended.
func (c *Component) Exited() <-chan struct{} {
	if current := c.current(); current != nil {
		return current.done
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Running reports whether the program runs.
func (c *Component) Running() bool {
	current := c.current()
	return current != nil && current.alive()
}

// PID is the process started last, or 0.
func (c *Component) PID() int {
	if current := c.current(); current != nil {
		return current.PID
	}
	return 0
}

// Args are the program's arguments.
func (c *Component) Args() []string { return slices.Clone(c.args) }

// SetArgs replaces the arguments for the next start.
func (c *Component) SetArgs(args ...string) { c.args = slices.Clone(args) }

// AddEnv adds a variable (NAME=value) to the environment of the next starts.
func (c *Component) AddEnv(variable string) { c.env = append(c.env, variable) }

// LogPath is the file that holds what the program wrote.
func (c *Component) LogPath() string { return c.stack.layout.log(c.name) }

// Log is everything the program wrote so far, over all its starts.
func (c *Component) Log() (string, error) {
	data, err := os.ReadFile(c.LogPath())
	return string(data), err
}

// Tail is the end of the log.
func (c *Component) Tail() string {
	const most = 16 << 10
	file, err := os.Open(c.LogPath())
	if err != nil {
		return err.Error()
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

func (c *Component) current() *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// launcher starts processes. Unless they are to outlive this process, they get
// SIGKILL when it ends, however it ends. The kernel sends that when the thread
// ends that started them, so one thread that stays starts them all.
type launcher struct {
	bound    bool
	requests chan func()
	done     chan struct{}
}

func newLauncher(bound bool) *launcher {
	l := &launcher{bound: bound, requests: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread()
		for request := range l.requests {
			request()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	// A session of its own keeps a terminal's Ctrl-C from reaching it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if l.bound {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	result := make(chan error)
	l.requests <- func() { result <- cmd.Start() }
	return <-result
}

// close ends the thread, and with it what was bound to it.
func (l *launcher) close() {
	close(l.requests)
	<-l.done
}
