// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

const (
	// seenRetry is when it is looked again whether the index has what was written. Its
	// watch wakes the workload earlier, as a rule.
	seenRetry = 100 * time.Millisecond
	// seenPatience is how long is waited for that: an etcd that was restored from a backup
	// may never come to that resourceVersion. Then one object is read past the cache;
	// listPatience is longer, because to list all NodeWorkloads of a workload holds up an API
	// server more whose watch is late.
	seenPatience = 5 * time.Second
	listPatience = 30 * time.Second
)

// written is what a workload's reconciliations wrote last.
type written struct {
	// version is the highest resourceVersion, "" when the index has it.
	version string
	at      time.Time
}

// note notes a write that made a resourceVersion.
func (w *written) note(version string, now time.Time) {
	w.version, w.at = fleet.Later(w.version, version), now
}

// bound notes the resourceVersion that the API server has: no later one comes to be seen. It is
// earlier than what was written only if etcd was restored from a backup.
func (w *written) bound(version string) {
	if version != "" && fleet.Later(version, w.version) == w.version {
		w.version = version
	}
}

// errNotSeen is a cache that does not show yet what was written.
var errNotSeen = errors.New("the cache does not show what was written")

// read reads the object. The cache may not show yet what was written of it last: a new status
// that equals the one before that would not be written, and no event would come that has it
// computed again. So nothing is read as long as the cache lags; after seenPatience the API
// server is read.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.ManagedWorkload, error) {
	mw := &v1alpha1.ManagedWorkload{}
	if err := r.client.Get(ctx, key, mw); err != nil {
		return nil, err
	}
	known := r.memories.of(mw)
	if fleet.Later(known.wroteSelf.version, mw.ResourceVersion) == mw.ResourceVersion {
		return mw, nil
	}
	if time.Since(known.wroteSelf.at) < seenPatience {
		return nil, errNotSeen
	}
	live := &v1alpha1.ManagedWorkload{}
	if err := r.live.Get(ctx, key, live); err != nil {
		return nil, err
	}
	known.wroteSelf.bound(live.ResourceVersion)
	r.memories.keep(mw, known)
	return live, nil
}

// behind reports whether the index does not have yet what was written before: what would be
// decided by it was decided already.
func (r *Reconciler) behind(w *written, now time.Time) bool {
	if r.fleet.Shares.Seen(w.version) {
		*w = written{}
		return false
	}
	return now.Sub(w.at) < listPatience
}

// sharesOf are the NodeWorkloads that the object controls: those of the index or, when that
// did not come to what was written for too long, those of the API server.
func (r *Reconciler) sharesOf(ctx context.Context, s *scope) ([]*fleet.Share, error) {
	if s.memory.wrote.version == "" || !s.mw.DeletionTimestamp.IsZero() {
		return r.fleet.Shares.OfWorkload(s.mw.UID), nil
	}
	logr.FromContextOrDiscard(ctx).Info("Wrote NodeWorkloads that the watch does not show; reading them", "resourceVersion", s.memory.wrote.version)
	s.memory.wrote.at = s.now // and again after that time, until the index has it
	var shares []*fleet.Share
	found := map[types.UID]bool{}
	version, err := r.eachLabelled(ctx, s.mw, func(share *fleet.Share) {
		shares, found[share.UID] = append(shares, share), true
	})
	if err != nil {
		return nil, err
	}
	s.memory.wrote.bound(version)
	for _, known := range r.fleet.Shares.OfWorkload(s.mw.UID) {
		if found[known.UID] {
			continue
		}
		share, err := r.liveShare(ctx, s.mw, known.Key()) // it may have lost its label
		if err != nil {
			return nil, err
		}
		if share != nil {
			shares = append(shares, share)
		}
	}
	return shares, nil
}
