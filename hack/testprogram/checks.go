// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// checks are commands that fail unless something is there as it should be.
func checks() []command {
	return []command{
		{"check-file", "FILE", "fail unless the file exists", 1, 1, checkFile},
		{"check-no-file", "FILE", "fail if the file exists", 1, 1, checkNoFile},
		{"check-content", "FILE TEXT", "fail unless the file holds the text, but for white space around it", 2, 2, checkContent},
		{"check-contains", "FILE TEXT", "fail unless the text is somewhere in the file", 2, 2, checkContains},
		{"check-mode", "FILE MODE [UID GID]", "fail unless the file behind any links has the octal mode, and owner and group", 2, 4, checkMode},
		{"check-env", "NAME VALUE", "fail unless the variable has the value", 2, 2, checkEnv},
		{"check-user", "UID GID [GROUP ...]", "fail unless this process has the ids and is in the groups", 2, -1, checkUser},
		{"check-capability", "NAME ...", "fail unless the capabilities (NET_ADMIN) are effective", 1, -1, checkCapability},
		{"check-no-capability", "NAME ...", "fail if one of the capabilities is effective", 1, -1, checkNoCapability},
		{"check-mount", "FOLDER OPTION ...", "fail unless it is a mount with the options: shared, slave, private, ro, rw, a type of file system", 2, -1, checkMount},
		{"check-write", "FOLDER", "fail unless a file can be made there", 1, 1, checkWrite},
		{"check-process", "NAME", "fail unless a process of another container or of the host has the name", 1, 1, checkProcess},
		{"check-interface", "NAME", "fail unless there is the network interface", 1, 1, checkInterface},
		{"check-api", "PATH STATUS", "ask the API server by client-go's configuration in a cluster; fail unless it answers so", 2, 2, askCluster},
		{"check-token", "FILE AUDIENCE SUBJECT", "fail unless the file holds a token with them that is valid now", 3, 3, checkToken},
	}
}

func checkContent(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(data)); got != args[1] {
		return fmt.Errorf("%s holds %.200q, want %q", args[0], got, args[1])
	}
	return nil
}

func checkContains(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), args[1]) {
		return fmt.Errorf("%s holds no %q", args[0], args[1])
	}
	return nil
}

func checkMode(args []string) error {
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("no owner known for %s", args[0])
	}
	got := []string{fmt.Sprintf("%04o", owner.Mode&0o7777), strconv.Itoa(int(owner.Uid)), strconv.Itoa(int(owner.Gid))}
	if want := args[1:]; !slices.Equal(got[:len(want)], want) {
		return fmt.Errorf("%s has mode, owner and group %q, want %q", args[0], got, want)
	}
	return nil
}

func checkEnv(args []string) error {
	value, found := os.LookupEnv(args[0])
	if !found || value != args[1] {
		return fmt.Errorf("%s is %q (set: %t), want %q", args[0], value, found, args[1])
	}
	return nil
}

func checkUser(args []string) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	if strconv.Itoa(os.Geteuid()) != args[0] || strconv.Itoa(os.Getegid()) != args[1] {
		return fmt.Errorf("user and group are %d and %d, want %s and %s", os.Geteuid(), os.Getegid(), args[0], args[1])
	}
	for _, group := range args[2:] {
		if id, err := strconv.Atoi(group); err != nil || !slices.Contains(groups, id) {
			return fmt.Errorf("groups are %d, want %s among them", groups, group)
		}
	}
	return nil
}

func checkWrite(args []string) error {
	file, err := os.CreateTemp(args[0], ".check-")
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Remove(file.Name())
}

func checkProcess(args []string) error {
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	for _, file := range files {
		name, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(name)) == args[0] {
			return nil
		}
	}
	return fmt.Errorf("none of %d processes is a %s", len(files), args[0])
}

func checkInterface(args []string) error {
	_, err := os.Stat(filepath.Join("/sys/class/net", args[0]))
	return err
}
