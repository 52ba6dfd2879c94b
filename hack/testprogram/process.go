// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func printEnv(args []string) error {
	if len(args) == 0 {
		return echo([]string{strings.Join(os.Environ(), "\n")})
	}
	value, found := os.LookupEnv(args[0])
	if !found {
		return fmt.Errorf("%s is not set", args[0])
	}
	return echo([]string{value})
}

// printID prints the lines of /proc/self/status that a security context decides.
func printID([]string) error {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		key, _, _ := strings.Cut(line, ":")
		switch key {
		case "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp":
			fmt.Print(line)
		}
	}
	return nil
}

// printLimits prints the limits found under /sys/fs/cgroup, of either version.
func printLimits([]string) error {
	for _, file := range []string{
		"cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us", "memory/memory.limit_in_bytes",
		"cpu.weight", "cpu.max", "memory.max", "memory.min", "memory.high",
	} {
		data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", filepath.Base(file), bytes.TrimSpace(data))
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return err
	}
	fmt.Printf("oom_score_adj %s\n", bytes.TrimSpace(score))
	return nil
}

func hostname([]string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return echo([]string{name})
}

func processes([]string) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended meanwhile
		}
		// Not all of it: a reader of the output may look for what stands there.
		words := strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
		fmt.Println(filepath.Base(dir), strings.Join(words[:min(2, len(words))], " "))
	}
	return nil
}

func sendSignal(args []string) error {
	sig, err := parseSignal(args[0])
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return unix.Kill(pid, sig)
}

// allocate touches every page, so that the memory really counts.
func allocate(args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	memory := make([]byte, size)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	if len(args) > 2 {
		if err := touch(args[2:]); err != nil {
			return err
		}
	}
	err = sleep(args[1:2])
	memory[0] = 2 // still in use until here
	return err
}

func httpGet(args []string) error {
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(args[0])
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", args[0], response.Status)
	}
	return nil
}
