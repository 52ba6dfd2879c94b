// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// The back-off of what a node ends again and again, evicted or shutting down, is that of a DaemonSet's failed Pods.
// (kubernetes pkg/controller/daemon, NewDaemonSetsController)
const (
	firstEvictedWait = time.Second
	maxEvictedWait   = 15 * time.Minute
	// evictedForgotten is how many times the longest wait no replacement must have happened
	// for the back-off to begin again.
	evictedForgotten = 2
)

// replacement is the last one of a node that has ended its NodeWorkload.
type replacement struct {
	// generation is that of the workload then: a change starts the back-off over.
	generation int64
	at         time.Time
	// wait is how long the next one waits from then on.
	wait time.Duration
}

// awaitsNode reports whether what a shutdown of its node ended is not replaced yet: a container
// still ends, or the node is not back.
func (r *Reconciler) awaitsNode(share *fleet.Share) bool {
	return share != nil && share.ShutDown && (share.Runs || r.fleet.Shims.ShutsDown(share.Node))
}

// due is when what a node has ended may be replaced; the zero time is at once.
func (s *scope) due(share *fleet.Share) time.Time {
	if share == nil || !share.Evicted {
		return time.Time{}
	}
	last, ok := s.lastReplaced(share)
	if !ok || last.generation != s.mw.Generation {
		return time.Time{}
	}
	return last.at.Add(last.wait)
}

// lastReplaced is the last replacement on a node. Where the memory began after what is there
// was made, what another manager knew is lost: what was evicted soon waits for as long as it
// ran, so that managers that come and go do not replace without end. A node that is back from a
// reboot need not wait so long.
func (s *scope) lastReplaced(share *fleet.Share) (replacement, bool) {
	if last, ok := s.memory.replaced[share.Node]; ok {
		return last, true
	}
	ran := share.LateSince.Sub(share.Created)
	if share.ShutDown || share.LateSince.IsZero() || ran >= maxEvictedWait || !share.Created.Before(s.memory.began.Truncate(time.Second)) {
		return replacement{}, false
	}
	return replacement{generation: s.memory.generation, at: share.LateSince, wait: max(ran, firstEvictedWait)}, true
}

// holdEvicted reports whether what its node has ended waits for its back-off, and asks for a look at
// its end.
func (s *scope) holdEvicted(share *fleet.Share) bool {
	left := s.due(share).Sub(s.now)
	s.wakeAfter(left)
	return left > 0
}

// noteReplaced says that what its node has ended is replaced. It waits the next time.
func (r *Reconciler) noteReplaced(s *scope, share *fleet.Share, by string) {
	if by != byEviction && by != byShutdown {
		return
	}
	s.noteEvicted(share)
	r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventEvicted, "Replacing NodeWorkload %s of node %s: %s", share.Name, share.Node, share.Failure)
}

// noteEvicted notes that what its node has ended is replaced.
func (s *scope) noteEvicted(share *fleet.Share) {
	maps.DeleteFunc(s.memory.replaced, func(_ string, last replacement) bool {
		return last.generation != s.mw.Generation || s.now.Sub(last.at) > evictedForgotten*maxEvictedWait
	})
	next := replacement{generation: s.mw.Generation, at: s.now, wait: firstEvictedWait}
	if last, ok := s.lastReplaced(share); ok && last.generation == s.mw.Generation {
		next.wait = min(2*last.wait, maxEvictedWait)
	}
	s.memory.replaced[share.Node] = next
}

// evictedMessage is why a node has nothing that runs, and when that changes.
func (n *nodeView) evictedMessage() string {
	if n.awaitsNode {
		return n.share.Failure + "; will be replaced when the node is back"
	}
	if n.replacedAt.IsZero() {
		return n.share.Failure + "; being replaced"
	}
	return n.share.Failure + "; will be replaced at " + n.replacedAt.UTC().Format(time.RFC3339)
}
