// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/runtime/expansion"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// probeExec runs a command in the container. A command that cannot be started is
// the prober's own error and never a failure. (pkg/probe/exec/exec.go)
func probeExec(ctx context.Context, exec Execer, t target) (outcome, error) {
	command := expansion.Static(t.spec.Exec.Command, t.container.Env)
	stdout, stderr, code, err := exec.ExecSync(ctx, t.id, command, t.timeout())
	switch {
	case runtimeerror.IsTimeout(err):
		return outcome{state: failed, output: timedOut(command, t.timeout()), brief: "timeout"}, nil
	case runtimeerror.IsOutputHeld(err):
		return outcome{state: failed, output: outputHeld(command), brief: "its output is held open"}, nil
	case err != nil:
		return outcome{state: unknown}, err
	case code != 0:
		output := append(append([]byte{}, stdout...), stderr...)
		return outcome{
			state:  failed,
			output: text.Cut(string(output), maxOutput),
			brief:  fmt.Sprintf("exit code %d", code),
		}, nil
	default:
		return outcome{state: succeeded}, nil
	}
}

// outputHeld says why the result of a command is not known. It would not be at any try.
func outputHeld(command []string) string {
	return fmt.Sprintf("command %q has ended, and a process that it left behind holds its output open", strings.Join(command, " "))
}

func timedOut(command []string, timeout time.Duration) string {
	return fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(command, " "), timeout)
}
