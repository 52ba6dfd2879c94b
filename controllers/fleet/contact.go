// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// readInterval is how often the manager looks whether it can read Leases: as often
	// as a shim renews its own.
	readInterval = 10 * time.Second
	// readTimeout is how long such a look may take.
	readTimeout = 5 * time.Second
	// contactGap is the longest time between two looks that worked in which nothing can
	// have been missed.
	contactGap = 2*readInterval + readTimeout
)

// contact is since when the manager's own reads of Leases work. While they do not, the
// silence of a shim may be the manager's own deafness, or the API server was away for
// both.
type contact struct {
	mu          sync.Mutex
	since, last time.Time
}

func (c *contact) worked(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() || now.Sub(c.last) > contactGap {
		c.since = now
	}
	c.last = now
}

// failed ends the contact.
func (c *contact) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.last = time.Time{}, time.Time{}
}

// covers reports whether reads worked for all of the last d before now.
func (c *contact) covers(now time.Time, d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.last.IsZero() && now.Sub(c.last) <= contactGap && now.Sub(c.since) >= d
}

// KeepContact looks until ctx is done whether reader can read Leases past the cache. No
// Lease is judged expired before that has worked for as long as a Lease lasts.
func (s *Shims) KeepContact(ctx context.Context, reader client.Reader) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		// There is none of that name; that the API server says so is enough.
		key := client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.LeaseNamePrefix + "none"}
		if err := reader.Get(ctx, key, &coordinationv1.Lease{}); client.IgnoreNotFound(err) != nil {
			s.reads.failed()
			return
		}
		s.reads.worked(time.Now())
	}, readInterval)
}
