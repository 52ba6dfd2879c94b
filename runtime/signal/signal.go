// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package signal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process returns the process ID, on the node, of the first process of a container that runs.
type Process func(ctx context.Context, containerID string) (pid int, err error)

// Sender sends signals.
type Sender struct {
	process Process
	// proc is where the node's processes are seen.
	proc string
}

// NewSender returns a sender that asks process.
func NewSender(process Process) *Sender { return &Sender{process: process, proc: "/proc"} }

var errNotItsProcess = errors.New(
	"the process that the runtime names is not seen to be the container's: the shim has to run in the node's PID namespace")

// Send sends a signal, by its name, to the first process of a container. The process is held
// by a file descriptor before it is looked at: its ID may go to another one meanwhile.
func (s *Sender) Send(ctx context.Context, containerID, name string) error {
	number := unix.SignalNum(name)
	if number == 0 {
		return fmt.Errorf("signal %q is unknown", name)
	}
	pid, err := s.process(ctx, containerID)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open the container's process: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := s.check(containerID, pid); err != nil {
		return err
	}
	again, err := s.process(ctx, containerID)
	if err != nil {
		return err
	}
	if again != pid {
		return errors.New("the container ended")
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil {
		return fmt.Errorf("send %s to the container's process: %w", name, err)
	}
	return nil
}

// check looks whether a process is in a cgroup of the container: runtimes name it by the
// container's ID.
func (s *Sender) check(containerID string, pid int) error {
	data, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return fmt.Errorf("read the cgroup of the container's process: %w", err)
	}
	if containerID == "" || !strings.Contains(string(data), containerID) {
		return errNotItsProcess
	}
	return nil
}
