// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func (f *fakeRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	c := f.find(id)
	if c == nil {
		f.record("StopContainer", entry{"container": "", "id": id, "timeout": float64(timeout)})
		return errorOf("NotFound")
	}
	f.record("StopContainer", entry{"container": c.Name, "id": id, "timeout": float64(timeout)})
	err := f.stop(ctx, c, timeout)
	f.record("StopContainerEnd", entry{"container": c.Name, "id": id, "error": kindOf(c, err)})
	return err
}

func kindOf(c *fakeContainer, err error) string {
	if err == nil {
		return ""
	}
	if c.stopError == "" {
		return err.Error()
	}
	return c.stopError
}

// stop waits until the container has left by itself or the timeout is over, and
// then returns the scripted error.
func (f *fakeRuntime) stop(ctx context.Context, c *fakeContainer, timeout int64) error {
	if c.stopError == "NotFound" || c.stopError == "PlainNotFound" {
		return errorOf(c.stopError)
	}
	f.mu.Lock()
	if c.State == plan.ContainerExited {
		f.mu.Unlock()
		return nil
	}
	if c.stopped == nil {
		c.stopped = make(chan struct{})
	}
	stopped := c.stopped
	f.mu.Unlock()
	leaves := time.Duration(c.stopSeconds * float64(time.Second))
	by := min(leaves, seconds(timeout))
	if c.ignoresTerm {
		by = seconds(timeout)
	}
	if by > 0 {
		select {
		case <-time.After(by):
		case <-stopped:
			return errorOf(c.stopError)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if c.stopError == "" && !c.runsOn {
		f.exit(c, stopped, c.ignoresTerm || by < leaves)
	}
	return errorOf(c.stopError)
}

func (f *fakeRuntime) exit(c *fakeContainer, stopped chan struct{}, forced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.State == plan.ContainerExited {
		return
	}
	close(stopped)
	c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, c.stopExitCode, time.Now()
	if forced && !c.sameExitCode {
		c.ExitCode = exitCodeSIGKILL
	}
	if c.oomKilled {
		c.ExitCode, c.Reason = exitCodeSIGKILL, reasonOOMKilled
	}
}
