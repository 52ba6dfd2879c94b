// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

const (
	tries     = 3
	maxOutput = 10 << 10 // bytes of a command's output or a response's body
	maxBrief  = 128      // bytes
)

// target is one probe to be run.
type target struct {
	kind      kind
	pod       *corev1.Pod
	container *corev1.Container
	spec      *corev1.Probe
	id, ip    string
	startedAt time.Time
	version   int
}

// early reports whether initialDelaySeconds, in whole seconds, are not over.
func (t target) early() bool {
	return int64(time.Since(t.startedAt)/time.Second) < int64(t.spec.InitialDelaySeconds)
}

func (t target) timeout() time.Duration {
	return time.Duration(max(t.spec.TimeoutSeconds, 1)) * time.Second
}

// state is how a probe ended, in the kubelet's words. (pkg/probe/probe.go)
type state string

const (
	succeeded state = "success"
	warned    state = "warning"
	failed    state = "failure"
	unknown   state = "unknown"
)

// outcome is the result of one probe.
type outcome struct {
	state state
	// output is for the event.
	output string
	// brief is a failure in a few words, without what a container wrote.
	brief string
}

// verdict: a warning is a success, and what is not known a failure.
// (prober/prober.go:probe)
func (o outcome) verdict() plan.ProbeResult {
	if o.state == succeeded || o.state == warned {
		return plan.ProbeSuccess
	}
	return plan.ProbeFailure
}

// prober runs one probe. An error is its own and says nothing about the container.
type prober interface {
	probe(ctx context.Context, t target) (outcome, error)
}

func probeWithRetries(ctx context.Context, p prober, t target) (out outcome, err error) {
	for range tries {
		out, err = p.probe(ctx, t)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// report makes the kubelet's events. (prober/prober.go:probe)
func (m *Manager) report(t target, out outcome, err error) {
	var reason, message string
	switch {
	case err != nil:
		reason, message = "Unhealthy", fmt.Sprintf("%s probe errored and resulted in %s state: %s", t.kind, out.state, runtimeerror.Text(err))
	case out.state == warned:
		reason, message = "ProbeWarning", fmt.Sprintf("%s probe warning: %s", t.kind, out.output)
	case out.state == failed:
		reason, message = "Unhealthy", fmt.Sprintf("%s probe failed: %s", t.kind, out.output)
	default:
		return
	}
	m.events.Event(t.pod, podspec.FieldPath(t.pod, t.container.Name), corev1.EventTypeWarning, reason, message)
}

// nodeProber runs probes from the node.
type nodeProber struct {
	exec Execer
	http httpProber
}

func newNodeProber(exec Execer) *nodeProber {
	return &nodeProber{exec: exec, http: newHTTPProber()}
}

func (p *nodeProber) probe(ctx context.Context, t target) (outcome, error) {
	switch handler := t.spec.ProbeHandler; {
	case handler.Exec != nil:
		return probeExec(ctx, p.exec, t)
	case handler.HTTPGet != nil:
		return p.http.probe(ctx, t)
	case handler.TCPSocket != nil:
		return probeTCP(ctx, t)
	case handler.GRPC != nil:
		return probeGRPC(ctx, t), nil
	default:
		return outcome{state: unknown}, fmt.Errorf("missing probe handler for %s:%s", podspec.Format(t.pod), t.container.Name)
	}
}

// brief is the innermost cause of a connection error, bounded.
func brief(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return text.Cut(err.Error(), maxBrief)
}
