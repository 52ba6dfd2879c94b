// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"os"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/scenario"
)

// bubbleRun is one side's run of a scenario.
type bubbleRun struct {
	t       *testing.T
	ctx     context.Context
	runtime *fakecri.Runtime
	conn    grpc.ClientConnInterface
	root    string
	after   func()
}

func (b *bubbleRun) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// bubble plays one side of a scenario on a virtual clock of its own, and with
// files of its own.
func bubble(t *testing.T, s *scenario.Scenario, leader []step, newAgent func(*bubbleRun) agent) (steps []step) {
	t.Helper()
	root, err := os.MkdirTemp(scratch(), "conformance-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	synctest.Test(t, func(t *testing.T) {
		ctx := klog.NewContext(logr.NewContext(t.Context(), logr.Discard()), logr.Discard())
		b := &bubbleRun{t: t, ctx: ctx, runtime: fakecri.New(s, root), root: root}
		b.conn = fakecri.Conn{Runtime: b.runtime}
		if *wire {
			conn, stop, err := fakecri.Dial(b.runtime)
			b.check(err)
			defer stop()
			b.conn = conn
		}
		a := newAgent(b)
		steps, err = play(ctx, s, b.runtime, a, leader)
		b.check(err)
		if b.after != nil {
			b.after()
		}
	})
	return steps
}

// scratch is where the agents keep their files: in memory, where there is such a
// place, because they wait for the disk.
func scratch() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return memory
	}
	return os.TempDir()
}
