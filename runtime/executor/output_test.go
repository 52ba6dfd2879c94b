// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// verbose is a runtime whose commands write megabytes and fail, and whose own
// errors are as long.
type verbose struct{ *fakeRuntime }

func (verbose) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
	return []byte(strings.Repeat("secret\x00ä", 1<<20)), []byte(strings.Repeat("e", 1<<20)), 1, nil
}

// What a failed postStart hook writes, or a runtime answers, reaches status and log
// in a bounded length.
func TestFailuresAreReportedInABoundedLength(t *testing.T) {
	tests := map[string]struct {
		runtime func(f *fakeRuntime) Runtime
		most    int
	}{
		"postStart hook": {func(f *fakeRuntime) Runtime { return verbose{f} }, 32 << 10},
		"creation": {func(f *fakeRuntime) Runtime {
			return &refusingRuntime{f, status.Error(codes.Unknown, strings.Repeat("x", 1<<20))}
		}, 32 << 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				e := New(Config{Runtime: tt.runtime(f), Events: f, Kills: f, HTTP: f, Differences: plan.AllDifferences()})
				pod := testPod(30, withPostStart)
				result := e.SyncPod(t.Context(), startApp(pod, f))
				message := result.Tried["app"].Message
				if message == "" || len(message) > tt.most || !utf8.ValidString(message) {
					t.Errorf("a waiting message of %d bytes, want 1 to %d", len(message), tt.most)
				}
				if n := len(result.Err.Error()); n > 5*tt.most {
					t.Errorf("an error of %d bytes is logged", n)
				}
			})
		})
	}
}
