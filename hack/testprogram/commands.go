// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// terminationLog is where a container's termination message belongs by default.
const terminationLog = "/dev/termination-log"

// command is something a hook, an exec probe or an init container runs.
type command struct {
	name, args, help string
	least, most      int // number of arguments; most < 0: any
	run              func(args []string) error
}

func commands() []command {
	return []command{
		{"pause", "", "hold a pod's namespaces and reap", 0, -1, func([]string) error { return pause() }},
		{"seq", "CMD , CMD ...", "run commands until one fails", 1, -1, runSequence},
		{"try", "CMD ...", "run a command and print its error instead of failing", 1, -1, try},
		{"show-args", "[ARGUMENTS]", "print the arguments, a line each, and run until a stop signal", 0, -1, showArgs},
		{"sleep", "DURATION", "wait", 1, 1, sleep},
		{"leave", "CMD ...", "run a command in a process of its own that keeps this one's output, and do not wait for it", 1, -1, leave},
		{"exit", "CODE", "exit with the code", 1, 1, exit},
		{"echo", "TEXT", "print", 0, -1, echo},
		{"flood", "[BYTES]", "print numbered lines of 1024 bytes, so many bytes a second or as fast as can be", 0, 1, flood},
		{"echo-error", "TEXT", "print to standard error", 0, -1, echoError},
		{"env", "[NAME]", "print the environment or one variable", 0, 1, printEnv},
		{"touch", "FILE", "create or touch a file", 1, 1, touch},
		{"append", "FILE TEXT", "append the time and the text as one line", 2, 2, appendLine},
		{"write", "FILE TEXT", "write a file", 2, 2, func(a []string) error { return os.WriteFile(a[0], []byte(a[1]), 0o644) }},
		{"cat", "FILE", "print a file", 1, 1, cat},
		{"rm", "FILE", "remove a file or folder", 1, 1, func(a []string) error { return os.RemoveAll(a[0]) }},
		{"wait-file", "FILE", "wait until the file exists", 1, 1, waitFile},
		{"ls", "FOLDER", "mode, owner, group and name of what is in it", 1, 1, list},
		{"stat", "FILE", "mode, owner, group and name", 1, 1, stat},
		{"readlink", "FILE", "print a link's target", 1, 1, readlink},
		{"write-termination-message", "TEXT [FILE]", "by default to " + terminationLog, 1, 2, writeTermination},
		{"http-get", "URL", "print the body; fail on a status of 400 or more", 1, 1, httpGet},
		{"id", "", "ids, groups and capabilities of this process", 0, 0, printID},
		{"report", "FILE [FOLDER ...]", "write ids, variables, and all that is in the folders into the file, as JSON", 1, -1, report},
		{"limits", "", "cgroup limits of this process as it sees them", 0, 0, printLimits},
		{"mount-tmpfs", "FOLDER", "mount a tmpfs on a new folder", 1, 1, mountTmpfs},
		{"mounts", "", "print the mount table", 0, 0, func([]string) error { return cat([]string{"/proc/self/mountinfo"}) }},
		{"hostname", "", "print the host name", 0, 0, hostname},
		{"ps", "", "process ids and the first words of command lines", 0, 0, processes},
		{"signal", "NAME PID", "send a signal", 2, 2, sendSignal},
		{"allocate", "BYTES DURATION [FILE]", "use that much memory for the time, and touch FILE when it is in use", 2, 3, allocate},
		{"copy-stdin", "", "print standard input until it ends", 0, 0, copyStdin},
	}
}

func runCommand(name string, args []string) error {
	for _, c := range append(commands(), checks()...) {
		if c.name != name {
			continue
		}
		if len(args) < c.least || (c.most >= 0 && len(args) > c.most) {
			return fmt.Errorf("usage: testprogram %s %s", c.name, c.args)
		}
		return c.run(args)
	}
	return fmt.Errorf("no command %q; see testprogram help", name)
}

// runSequence runs the commands that lone commas separate.
func runSequence(args []string) error {
	for len(args) > 0 {
		end := slices.Index(args, ",")
		if end < 0 {
			end = len(args)
		}
		if end == 0 {
			return fmt.Errorf("empty command in seq")
		}
		if err := run(args[:end]); err != nil {
			return err
		}
		args = args[min(end+1, len(args)):]
	}
	return nil
}

func try(args []string) error {
	if err := run(args); err != nil {
		return echo([]string{"error:", err.Error()})
	}
	return nil
}

// leave starts a command that outlives this process.
func leave(args []string) error {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// showArgs stands for any program: it takes whatever arguments there are.
func showArgs(args []string) error {
	for _, arg := range args {
		if err := echo([]string{arg}); err != nil {
			return err
		}
	}
	return serve(nil)
}

func sleep(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	time.Sleep(d)
	return nil
}

func exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return exitStatus(code)
}

const (
	floodLine = 1024
	// floodBatch is how many lines are written at once, and floodPause how long a flood that is
	// ahead of its rate waits at least.
	floodBatch = 32
	floodPause = 5 * time.Millisecond
)

// flood prints lines until it is killed.
func flood(args []string) error {
	rate := 0.0
	if len(args) > 0 {
		var err error
		if rate, err = strconv.ParseFloat(args[0], 64); err != nil || rate <= 0 {
			return fmt.Errorf("flood: %q is no number of bytes a second", args[0])
		}
	}
	padding := strings.Repeat("x", floodLine-len("0000000000 ")-1)
	begun, batch := time.Now(), make([]byte, 0, floodBatch*floodLine)
	for i := 0; ; {
		batch = batch[:0]
		for range floodBatch {
			batch = fmt.Appendf(batch, "%010d %s\n", i, padding)
			i++
		}
		if _, err := os.Stdout.Write(batch); err != nil {
			return err
		}
		if rate == 0 {
			continue
		}
		if ahead := time.Duration(float64(i)*floodLine/rate*float64(time.Second)) - time.Since(begun); ahead > floodPause {
			time.Sleep(ahead)
		}
	}
}
