// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// pickyPublisher takes no status.
type pickyPublisher struct{ Publisher }

func (pickyPublisher) Publish(context.Context, Identity, *v1alpha1.NodeWorkloadStatus) error {
	return fmt.Errorf("update status: %w: summary: Too long", ErrRefused)
}

// A status that the API server refuses does not keep an object from going.
func TestRefusedStatusDoesNotKeepTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.cfg.Publisher = pickyPublisher{n}
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil), generation(2)))
		n.settle(time.Minute)
		if !n.did("release a") || !n.did("kill pod") {
			t.Errorf("calls %q", n.log())
		}
	})
}
