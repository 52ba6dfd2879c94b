// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inMountNamespace in the environment: the process has mounts of its own.
const inMountNamespace = "MW_E2E_OWN_MOUNTS"

// WithSharedMounts runs the tests of the binary once more, in a mount namespace of their own
// where all mounts are shared, as systemd makes them: without that no host path could
// be propagated. The machine's mounts may be private, and stay as they are.
func WithSharedMounts(run func() int) int {
	if os.Geteuid() != 0 {
		return run()
	}
	if os.Getenv(inMountNamespace) != "" {
		if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
			fmt.Fprintln(os.Stderr, "share the mounts:", err)
			return 1
		}
		return run()
	}
	runtime.LockOSThread() // the child gets SIGKILL when this thread ends
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inMountNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "start in a mount namespace:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
