// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RuntimeShim is a containerd-shim process, which holds one pod's sandbox.
type RuntimeShim struct {
	PID       int
	SandboxID string
	Started   time.Time
}

// RuntimeShims finds those of one stack.
func RuntimeShims(stateDir string) ([]RuntimeShim, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []RuntimeShim
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it ended
		}
		args := strings.Split(string(cmdline), "\x00")
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !strings.Contains(filepath.Base(args[0]), "containerd-shim") || !bytes.Contains(environ, []byte("="+stateDir+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		started, err := startOf(dir)
		if err != nil {
			continue
		}
		for i, arg := range args[:len(args)-1] {
			if arg == "-id" {
				found = append(found, RuntimeShim{PID: pid, SandboxID: args[i+1], Started: started})
			}
		}
	}
	return found, nil
}

// startOf is when the process with a folder in /proc was started.
func startOf(dir string) (time.Time, error) {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return time.Time{}, err
	}
	// The command may hold spaces and brackets; the fields after it do not.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const (
		startTime = 19  // field 22 of proc(5), counted from the state, field 3
		ticks     = 100 // a second, on every machine that Linux calls by HZ to users
	)
	if len(fields) <= startTime {
		return time.Time{}, fmt.Errorf("%s/stat: %d fields after the command", dir, len(fields))
	}
	started, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s/stat: %w", dir, err)
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return time.Time{}, err
	}
	age := time.Duration(boot.Nano()) - time.Duration(started)*time.Second/ticks
	return time.Now().Add(-age), nil
}

// Empty reports that the process has no children, and thus no container.
func (s RuntimeShim) Empty() bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.PID))
	if err != nil {
		return false
	}
	for _, file := range files {
		if children, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(children)) > 0 {
			return false
		}
	}
	return true
}

// Kill kills the process.
func (s RuntimeShim) Kill() error { return s.signal(unix.SIGKILL) }

// StopFor stops the process for a time.
func (s RuntimeShim) StopFor(ctx context.Context, d time.Duration) error {
	if err := s.signal(unix.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(sleep(ctx, d), s.signal(unix.SIGCONT))
}

// signal sends a signal, if the process is still that shim.
func (s RuntimeShim) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return ignoreGone(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing to lose
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID))
	if err != nil || !bytes.Contains(cmdline, []byte(s.SandboxID)) {
		return nil // it ended
	}
	return ignoreGone(unix.PidfdSendSignal(fd, sig, nil, 0))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
