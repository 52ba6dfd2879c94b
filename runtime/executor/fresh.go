// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// reachTime is how long a request needs at most to reach a container through a
// runtime that works.
const reachTime = time.Second

// awaitReached notes after a moment that what the phase asks for has reached the
// container: from then on its time counts whether or not this process lives. stop
// ends the wait.
func (k *kill) awaitReached(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(reachTime)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
			_ = panics.Contain(logr.FromContextOrDiscard(ctx), "the record of a kill", func() error {
				k.change(func(*v1alpha1.KillRecord) { k.fresh = 0 })
				k.notePaused(ctx)
				return nil
			})
		}
	}()
	return func() {
		close(over)
		cancel()
		<-done
	}
}
