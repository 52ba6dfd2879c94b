// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"
)

// An exit by SIGKILL right after the kernel's count has risen is an OOM kill; what the
// kernel did before the shim watched, or long ago, says nothing.
func TestOOMKillByTheKernelsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.oomKills = 7
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		exit := func(want string) {
			t.Helper()
			n.exit("a", 137)
			p.Wake("a")
			n.settle(time.Minute)
			if e := n.published("a").LastExit; e == nil || e.Summary != want {
				t.Errorf("last exit %+v, want %q", e, want)
			}
		}
		exit("exit 137")
		n.mu.Lock()
		n.oomKills++
		n.mu.Unlock()
		exit("OOMKilled (137)")
		n.settle(time.Hour)
		exit("exit 137")
	})
}
