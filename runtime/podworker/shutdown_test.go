// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A kill that fails because the process ends has not failed: its record stays open,
// and the next process resumes it.
func TestKillsCutOffByTheShutdownStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.killing = func(ctx context.Context, r plan.KillRequest) error {
			c := r.Observed.Containers[0]
			n.pool.Kill(r.Pod.UID, killRecord(r, c, v1alpha1.KillPhaseStopping))
			<-ctx.Done()
			failed := killRecord(r, c, v1alpha1.KillPhaseDone)
			failed.Record.Outcome, failed.Record.Error = v1alpha1.KillOutcomeFailed, "context canceled"
			n.pool.Kill(r.Pod.UID, failed)
			return errors.New("context canceled")
		}
		p := n.restore(t)
		ctx, shutDown := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.Run(ctx)
		}()
		p.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(ptr.To[int64](7))))
		n.settle(time.Second)
		shutDown()
		<-ended
		saved, err := n.store.Load()
		if err != nil || len(saved) != 1 || len(saved[0].Status.Kills) != 1 {
			t.Fatalf("checkpoints %v, error %v; want one with one kill", saved, err)
		}
		if k := saved[0].Status.Kills[0]; k.Phase != v1alpha1.KillPhaseStopping || k.Outcome != "" {
			t.Errorf("the kill is %s with outcome %q, want it to stay open", k.Phase, k.Outcome)
		}
	})
}
