// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile in the state directory makes sure that there is one shim to it.
const lockFile = "lock"

// stateLock is held as long as the process lives.
type stateLock struct{ file *os.File }

// lockState takes the lock, or says that another shim has it.
func lockState(dir string) (*stateLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another shim uses the state directory %s: one shim per node", dir), file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return &stateLock{file: file}, nil
}

// release gives the lock back.
func (l *stateLock) release() error { return l.file.Close() }

// bootIDPath is where the kernel has the ID of this boot.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

func bootID() string {
	data, err := os.ReadFile(bootIDPath)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
