// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// After a failed step nothing but a changed workload wakes a worker for a second: what
// the failed step itself causes does not make it spin.
func TestEventsDoNotEndTheCalmDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.fail(errors.New("the runtime does not answer"))
		p.Wake("a")
		n.settle(10 * time.Millisecond)
		n.fail(nil)
		before := n.lastLook()
		p.Wake("a")
		n.settle(calmDown / 2)
		if at := n.lastLook(); at != before {
			t.Errorf("the worker looked again %s after it failed", at.Sub(before))
		}
	})
}

func (n *fakeNode) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.observeErr = err
}

func (n *fakeNode) lastLook() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookedAt
}
