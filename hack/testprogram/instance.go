// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

var containerIDs = regexp.MustCompile(`[0-9a-f]{64}`)

// containerID is the runtime's ID of this container, as the path of its cgroup
// has it; with a cgroup namespace (cgroup v2) that shows no ID, and the process
// gets a name by its start instead.
func containerID() string {
	data, err := os.ReadFile("/proc/self/cgroup")
	if found := containerIDs.FindAll(data, -1); err == nil && len(found) > 0 {
		return string(found[len(found)-1])
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return fmt.Sprintf("process-%d", os.Getpid())
	}
	return "unknown-" + string(id[:36])
}

// lockAlone holds a lock until the process ends, however it ends. That another
// process holds it is logged, and stops nothing.
func lockAlone(file string, log *journal) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		log.printf("not alone: %s is locked", file)
		err = nil
	}
	locks = append(locks, f)
	return err
}

// locks keeps locked files from being closed by the garbage collector.
var locks []*os.File
