// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities that programs on nodes ask for.
var capabilities = map[string]int{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "KILL": unix.CAP_KILL,
	"NET_ADMIN": unix.CAP_NET_ADMIN, "NET_RAW": unix.CAP_NET_RAW, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "SYS_MODULE": unix.CAP_SYS_MODULE, "SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"SYS_RESOURCE": unix.CAP_SYS_RESOURCE, "SYS_TIME": unix.CAP_SYS_TIME, "IPC_LOCK": unix.CAP_IPC_LOCK, "MKNOD": unix.CAP_MKNOD,
}

// effective reports whether this process has a capability.
func effective(name string) (bool, error) {
	number, known := capabilities[name]
	if !known {
		return false, fmt.Errorf("no capability %q is known", name)
	}
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	_, after, _ := strings.Cut(string(data), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return set&(1<<number) != 0, err
}

func checkCapability(args []string) error { return checkCapabilities(args, true) }

func checkNoCapability(args []string) error { return checkCapabilities(args, false) }

func checkCapabilities(names []string, want bool) error {
	for _, name := range names {
		has, err := effective(name)
		if err != nil {
			return err
		}
		if has != want {
			return fmt.Errorf("capability %s is effective: %t", name, has)
		}
	}
	return nil
}

// checkMount looks the folder up in the mount table: the last mount at a place is the one
// that is seen.
func checkMount(args []string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	options := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields := strings.Fields(before)
		if len(fields) < 6 || fields[4] != filepath.Clean(args[0]) {
			continue
		}
		options = map[string]bool{"private": len(fields) == 6}
		for option := range strings.SplitSeq(fields[5], ",") {
			options[option] = true
		}
		for _, tag := range fields[6:] {
			kind, _, _ := strings.Cut(tag, ":")
			options[map[string]string{"shared": "shared", "master": "slave"}[kind]] = true
		}
		kind, _, _ := strings.Cut(after, " ")
		options[kind] = true
	}
	for _, option := range args[1:] {
		if !options[option] {
			return fmt.Errorf("%s is no mount that is %s: %v", args[0], option, options)
		}
	}
	return nil
}
