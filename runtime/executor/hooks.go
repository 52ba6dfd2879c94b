// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// hookRunner runs lifecycle hooks. On failure the message is what a person
// reads about the error; it may hold output of the container.
type hookRunner interface {
	Run(ctx context.Context, containerID string, pod *corev1.Pod, c *corev1.Container,
		hook *corev1.LifecycleHandler) (message string, err error)
}

// handlers runs hooks as the kubelet does; they have no timeout of their own and
// end with ctx. (kubelet lifecycle/handlers.go)
type handlers struct {
	runtime Runtime
	events  Events
	http    HTTPDoer
	// differences from the kubelet.
	differences plan.Differences
}

// maxHookOutput is how much of what a hook wrote is reported, in bytes: it ends up
// in the status, which etcd bounds.
const maxHookOutput = 4 << 10

var errSleepCut = errors.New("container terminated before sleep hook finished")

// Run runs one hook until it has ended or ctx has.
func (h *handlers) Run(ctx context.Context, containerID string, pod *corev1.Pod, c *corev1.Container,
	hook *corev1.LifecycleHandler) (string, error) {
	switch {
	case hook.Exec != nil:
		output, err := h.exec(ctx, containerID, hook.Exec.Command)
		if err != nil {
			return fmt.Sprintf("Exec lifecycle hook (%v) for Container %q in Pod %q failed - error: %v, message: %q",
				hook.Exec.Command, c.Name, podspec.Format(pod), execWords(hook.Exec.Command, err), output), err
		}
	case hook.HTTPGet != nil:
		if err := h.httpGet(ctx, containerID, pod, c, hook.HTTPGet); err != nil {
			return fmt.Sprintf("HTTP lifecycle hook (%s) for Container %q in Pod %q failed - error: %v",
				hook.HTTPGet.Path, c.Name, podspec.Format(pod), err), err
		}
	case hook.Sleep != nil:
		if err := sleep(ctx, hook.Sleep.Seconds); err != nil {
			return fmt.Sprintf("Sleep lifecycle hook (%d) for Container %q in Pod %q failed - error: %v",
				hook.Sleep.Seconds, c.Name, podspec.Format(pod), err), err
		}
	default:
		err := fmt.Errorf("invalid handler: %v", hook)
		return fmt.Sprintf("Cannot run handler: %v", err), err
	}
	return "", nil
}

// exec runs a command in the container and returns what it wrote.
func (h *handlers) exec(ctx context.Context, containerID string, cmd []string) (string, error) {
	stdout, stderr, exitCode, err := h.runtime.ExecSync(ctx, containerID, cmd, 0)
	stderr = stderr[:min(len(stderr), maxHookOutput)]
	output := text.Cut(string(stdout[:min(len(stdout), maxHookOutput)])+string(stderr), maxHookOutput)
	if err != nil {
		return output, err
	}
	if exitCode != 0 {
		return output, fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), exitCode, stderr)
	}
	return output, nil
}

// execWords is the error of a command as the kubelet words it: the runtime's own,
// but for a call that ran out of time. (cri-client/pkg/remote_runtime.go:execSyncV1)
func execWords(cmd []string, err error) string {
	if runtimeerror.IsTimeout(err) {
		return fmt.Sprintf("command timed out: %q timed out after 0s", strings.Join(cmd, " "))
	}
	return runtimeerror.Text(err)
}

// sleep waits that many seconds.
func sleep(ctx context.Context, n int64) error {
	until := time.Now().Add(seconds(n))
	timer := time.NewTimer(seconds(n))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if time.Now().Before(until) {
			return errSleepCut
		}
	}
	return nil
}
