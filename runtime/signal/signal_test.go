// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package signal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// victim starts a process that ends with a signal, and a proc folder that says its cgroup.
func victim(t *testing.T, cgroup string) (cmd *exec.Cmd, s *Sender) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	proc := t.TempDir()
	dir := filepath.Join(proc, strconv.Itoa(cmd.Process.Pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte("0::"+cgroup+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = NewSender(func(context.Context, string) (int, error) { return cmd.Process.Pid, nil })
	s.proc = proc
	return cmd, s
}

func TestSend(t *testing.T) {
	cmd, s := victim(t, "/managedworkload/poduid/c0ffee")
	if err := s.Send(t.Context(), "c0ffee", "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGUSR1 {
		t.Errorf("it ended with %v", got)
	}
}

// What is not proved to be the container's gets no signal.
func TestSendNothingInDoubt(t *testing.T) {
	tests := map[string]struct {
		cgroup, signal string
		answers        func(pid int) Process
		want           string
	}{
		"another's cgroup": {"/managedworkload/poduid/other", "SIGKILL", nil, "PID namespace"},
		"no signal":        {"/c0ffee", "SIGNONE", nil, `signal "SIGNONE" is unknown`},
		"ended meanwhile": {"/c0ffee", "SIGKILL", func(pid int) Process {
			asked := 0
			return func(context.Context, string) (int, error) {
				asked++
				return pid + asked - 1, nil
			}
		}, "the container ended"},
		"does not run": {"/c0ffee", "SIGKILL", func(int) Process {
			return func(context.Context, string) (int, error) { return 0, errors.New("no process") }
		}, "no process"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cmd, s := victim(t, tt.cgroup)
			if tt.answers != nil {
				s.process = tt.answers(cmd.Process.Pid)
			}
			if err := s.Send(t.Context(), "c0ffee", tt.signal); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if err := cmd.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGUSR2 {
				t.Errorf("it ended with %v", got)
			}
		})
	}
}
