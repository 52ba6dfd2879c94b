// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stateVariable is in the environment of every process of a stack, those of
// containerd's shims included: it names the state folder.
const stateVariable = "MW_LOCALSTACK_STATE"

// lookUp describes a running process.
func lookUp(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The command may hold spaces and brackets; the fields after it do not.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const startTime = 19 // field 22 of proc(5), counted from the state, field 3
	if len(fields) <= startTime {
		return process{}, fmt.Errorf("/proc/%d/stat: %d fields after the command", pid, len(fields))
	}
	start, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	if fields[0][0] == 'Z' {
		return process{}, os.ErrProcessDone
	}
	return process{PID: pid, Start: start}, nil
}

// terminate ends a process: SIGTERM, and SIGKILL when the grace is over or the
// context done. A process that is gone, or is another one by now, is left alone.
func (p process) terminate(ctx context.Context, grace time.Duration) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // there is none, or its number is now that of another's thread
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing to lose
	// The descriptor holds the process; only now is it certain which one it is.
	if now, err := lookUp(p.PID); err != nil || now != p {
		return nil // it ended
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if grace > 0 {
		if err := signalFD(fd, unix.SIGTERM); err != nil {
			return fmt.Errorf("terminate process %d: %w", p.PID, err)
		}
		if awaitExit(ctx, fd) {
			return nil
		}
	}
	if err := signalFD(fd, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	killed, cancelKilled := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelKilled()
	if !awaitExit(killed, fd) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

func signalFD(fd int, sig unix.Signal) error {
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// awaitExit reports whether the process ended before the context was done.
func awaitExit(ctx context.Context, fd int) bool {
	const slice = 50 // milliseconds after which the context is looked at again
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, slice)
		switch {
		case n > 0:
			return true
		case err != nil && !errors.Is(err, unix.EINTR), ctx.Err() != nil:
			return false
		}
	}
}

// strays finds every process of the stack, recorded or not.
func strays(l layout) ([]process, error) {
	byStack, err := processesByStack()
	return byStack[l.dir], err
}

// otherStacks finds the state folders of the other stacks that run.
func otherStacks(l layout) ([]string, error) {
	byStack, err := processesByStack()
	delete(byStack, l.dir)
	return slices.Sorted(maps.Keys(byStack)), err
}

// processesByStack finds every process whose environment names a state folder,
// but for this process itself.
func processesByStack() (map[string][]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	found := map[string][]process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // it ended, or is another user's
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			stack, ok := bytes.CutPrefix(variable, []byte(stateVariable+"="))
			if !ok {
				continue
			}
			if p, err := lookUp(pid); err == nil {
				found[string(stack)] = append(found[string(stack)], p)
			}
		}
	}
	return found, nil
}
