// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/managedworkload/managedworkload/api/mirror"
)

// Bounds, per second: of the requests to the API server for all nodes together and for one, and of what
// is said of one. A node that was taken over may report whatever it likes, as often as it likes.
const (
	totalQPS, totalBurst = 20, 200
	nodeQPS, nodeBurst   = 1, mirror.Max
	wordQPS, wordBurst   = 0.1, 20
)

const (
	// firstRetry is when the API server is asked again for a mirror that it refused, then twice as late
	// each time, up to lastRetry.
	firstRetry, lastRetry = 10 * time.Second, 10 * time.Minute
	// again is when what is above a bound, or not known yet, is looked at again.
	again = 2 * time.Second
	// unseen is how long what was written is waited for: it may have been lost with an etcd.
	unseen = time.Minute
	// maxReason bounds what is said of the API server's words, and of what a node sent.
	maxReason = 256
)

// memo is what is remembered of a node between two reports. Only one reconciliation of a node has it.
type memo struct {
	// refused are the workloads of the latest report that have no mirror.
	refused map[types.NamespacedName]refusal
	// unread is why the latest report could not be read.
	unread string
	// written is the resourceVersion of the latest mirror that was made, and when that was.
	written   string
	writtenAt time.Time
	// gone is when mirrors were found to be deleted that the index still has.
	gone map[types.UID]time.Time
	// writes and words bound requests to the API server, and lines of the log with their events.
	writes, words flowcontrol.PassiveRateLimiter
}

// refusal is why a workload has no mirror.
type refusal struct {
	reason string
	// said: it is in the log, and an event.
	said bool
	// times is how often the API server refused it, and again when it is asked next.
	times int
	again time.Time
}

// refuse notes why there is no mirror. It is said when it is another reason than before.
func (r refusal) refuse(reason string) refusal {
	if r.reason != reason {
		r.reason, r.said = reason, false
	}
	return r
}

// backOff notes that the API server is asked later, and later each time.
func (r refusal) backOff(now time.Time) refusal {
	r.again = now.Add(min(firstRetry<<min(r.times, 10), lastRetry))
	r.times++
	return r
}

// memos are those of all nodes.
type memos struct {
	mu     sync.Mutex
	byNode map[string]*memo
}

func (m *memos) of(node string) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byNode[node] == nil {
		m.byNode[node] = &memo{
			writes: flowcontrol.NewTokenBucketPassiveRateLimiter(nodeQPS, nodeBurst),
			words:  flowcontrol.NewTokenBucketPassiveRateLimiter(wordQPS, wordBurst),
		}
	}
	return m.byNode[node]
}

func (m *memos) forget(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byNode, node)
}
