// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A shortening that comes between two phases holds for the next one.
func TestShortenBetweenPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := testPod(30, nil)
		f := newFakeRuntime()
		f.running("app", nil)
		k := newFakeExecutor(f).newKill(pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		k.start()
		k.shorten(time.Now(), 5)
		begun := time.Now()
		ctx, end := k.begin(t.Context(), v1alpha1.KillPhaseWaitingForTurn)
		<-ctx.Done()
		end()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the phase ended after %s, want 5s", took)
		}
	})
}
