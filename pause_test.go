// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/runtime/pause"
)

// What reserves on a node costs next to nothing there, and ends when it is asked to: this
// program is large, and the packages of manager and shim are not initialised for it.
func TestPause(t *testing.T) {
	const most = 4 << 10 // kB that are the process's own
	for delay := 10 * time.Millisecond; ; delay *= 2 {
		cmd := exec.Command(os.Args[0], pause.Name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay) // it says nothing when it waits
		used := anonymous(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if err != nil && delay < 5*time.Second {
			continue // too early
		}
		if err != nil || used > most && !raced {
			t.Errorf("asked to end: %v; it used %d kB, want at most %d", err, used, most)
		}
		return
	}
}

// anonymous is the memory of a process that is not a file's, in kB.
func anonymous(t *testing.T, pid int) (kB int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("RssAnon in %q: %v", status, err)
	}
	return kB
}
