// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endlessRuntime answers nothing until it is not asked any more.
type endlessRuntime struct {
	grpc.ClientConnInterface
	ended chan time.Time
}

func (r *endlessRuntime) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	<-ctx.Done()
	r.ended <- time.Now()
	return status.FromContextError(ctx.Err()).Err()
}

// A command that is cancelled while the runtime starts it is not cut off before it
// had the time to start, but nothing waits for that.
func TestExecSyncIsNotCutOffAtItsStart(t *testing.T) {
	tests := map[string]struct{ cancelAfter, wantCutAfter time.Duration }{
		"while it starts": {100 * time.Millisecond, execStart},
		"later":           {execStart + time.Second, execStart + time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &endlessRuntime{ended: make(chan time.Time, 1)}
				client, err := New(t.Context(), runtime, Config{Instance: "node", PodDir: &fakePodDir{}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				begun := time.Now()
				time.AfterFunc(tt.cancelAfter, cancel)
				_, _, _, err = client.ExecSync(ctx, "c", []string{"x"}, 0)
				if took := time.Since(begun); status.Code(err) != codes.Canceled || took != tt.cancelAfter {
					t.Errorf("returned %v after %s, want Canceled after %s", err, took, tt.cancelAfter)
				}
				if err := client.Close(); err != nil {
					t.Error(err)
				}
				select {
				case at := <-runtime.ended:
					if took := at.Sub(begun); took != tt.wantCutAfter {
						t.Errorf("cut off after %s, want %s", took, tt.wantCutAfter)
					}
				default:
					t.Error("the client was closed before the call had ended")
				}
				if _, _, _, err := client.ExecSync(ctx, "c", []string{"x"}, 0); status.Code(err) != codes.Canceled || len(runtime.ended) != 0 {
					t.Errorf("began with a context that had ended: %v", err)
				}
			})
		})
	}
}

// A command with a timeout fails by it, also where the runtime does not answer: a process that the
// command has left behind keeps its output open.
func TestExecSyncEndsByItsTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Second: time.Second + execSlack, 1500 * time.Millisecond: 2*time.Second + execSlack, time.Minute: time.Minute + execSlack,
	} {
		synctest.Test(t, func(t *testing.T) {
			runtime := &endlessRuntime{ended: make(chan time.Time, 1)}
			client, err := New(t.Context(), runtime, Config{Instance: "node", PodDir: &fakePodDir{}})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			_, _, _, err = client.ExecSync(t.Context(), "c", []string{"x"}, timeout)
			if took := time.Since(begun); status.Code(err) != codes.DeadlineExceeded || took != want {
				t.Errorf("timeout %s: returned %v after %s, want DeadlineExceeded after %s", timeout, err, took, want)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// panickingRuntime panics at each call.
type panickingRuntime struct{ grpc.ClientConnInterface }

func (panickingRuntime) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	panic("boom")
}

// A panic of the call that runs a command is the command's error.
func TestExecSyncContainsAPanic(t *testing.T) {
	client, err := New(t.Context(), panickingRuntime{}, Config{Instance: "node", PodDir: &fakePodDir{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err = client.ExecSync(t.Context(), "c", []string{"x"}, 0); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("error %v, want the panic", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
