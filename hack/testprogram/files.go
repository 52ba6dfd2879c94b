// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func echo(args []string) error {
	_, err := fmt.Println(strings.Join(args, " "))
	return err
}

func echoError(args []string) error {
	_, err := fmt.Fprintln(os.Stderr, strings.Join(args, " "))
	return err
}

func touch(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(args[0], now, now)
}

func appendLine(args []string) (err error) {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintf(f, "%s %s\n", time.Now().Format(time.RFC3339Nano), args[1])
	return err
}

func cat(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	_, err = io.Copy(os.Stdout, f)
	return err
}

func copyStdin([]string) error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

func checkFile(args []string) error {
	_, err := os.Stat(args[0])
	return err
}

func checkNoFile(args []string) error {
	_, err := os.Lstat(args[0])
	if err == nil {
		return fmt.Errorf("%s exists", args[0])
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func waitFile(args []string) error {
	for {
		err := checkFile(args)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func list(args []string) error {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := stat([]string{filepath.Join(args[0], e.Name())}); err != nil {
			return err
		}
	}
	return nil
}

func stat(args []string) error {
	info, err := os.Lstat(args[0])
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("no owner known for %s", args[0])
	}
	_, err = fmt.Printf("%s %d %d %s\n", info.Mode(), owner.Uid, owner.Gid, info.Name())
	return err
}

func readlink(args []string) error {
	target, err := os.Readlink(args[0])
	if err != nil {
		return err
	}
	return echo([]string{target})
}

func mountTmpfs(args []string) error {
	if err := os.Mkdir(args[0], 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=64k")
}

func writeTermination(args []string) error {
	file := terminationLog
	if len(args) == 2 {
		file = args[1]
	}
	return os.WriteFile(file, []byte(args[0]), 0o644)
}
