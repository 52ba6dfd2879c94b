// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// maxUnseen is how long a promise may last whose NodeWorkload does not turn up: the answer to
// a write was lost, or an etcd was restored.
const maxUnseen = time.Minute

// NodeWorkloads are those that are known.
type NodeWorkloads interface {
	// Usages are what those of a namespace use that may run.
	Usages(namespace string) map[types.NamespacedName]*Usage
	// Seen reports whether all that was written up to a resourceVersion is known.
	Seen(version string) bool
}

// Ledger knows what was promised to NodeWorkloads that are not known yet, so that two
// workloads do not get the same room, and which workloads wait for room.
type Ledger struct {
	known NodeWorkloads

	mu       sync.Mutex
	promises map[string]map[types.NamespacedName]*promise
	waiting  map[string]map[string]bool
}

// promise is room that a NodeWorkload was promised.
type promise struct {
	usage *Usage
	// written: it was, at a resourceVersion that is "" where that is not known.
	written bool
	version string
	// until is when it ends in any case, zero while it is not written yet.
	until time.Time
	// before is an earlier promise, which counts again when this one is not used.
	before *promise
}

// NewLedger returns a ledger without promises.
func NewLedger(known NodeWorkloads) *Ledger {
	return &Ledger{known: known, promises: map[string]map[types.NamespacedName]*promise{}, waiting: map[string]map[string]bool{}}
}

// Room is what asks got: it is to be notified of what was written, and then to be closed.
type Room struct {
	ledger    *Ledger
	namespace string
	mine      map[types.NamespacedName]*promise
	// Refused are the asks for which there is no room.
	Refused map[types.NamespacedName]Refusal
}

// Ask asks for room in the quotas of a namespace, and promises what there is.
func (l *Ledger) Ask(namespace string, quotas []*corev1.ResourceQuota, asks []Ask, now time.Time) *Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	promises := l.promises[namespace]
	maps.DeleteFunc(promises, func(_ types.NamespacedName, p *promise) bool { // before what is known is looked at
		return p.written && p.version != "" && l.known.Seen(p.version) || !p.until.IsZero() && !now.Before(p.until)
	})
	held := map[types.NamespacedName]Held{}
	for key, usage := range l.known.Usages(namespace) {
		held[key] = Held{Has: usage}
	}
	for key, p := range promises {
		held[key] = Held{held[key].Has, p.usage}
	}
	room := &Room{ledger: l, namespace: namespace, mine: map[types.NamespacedName]*promise{}, Refused: Decide(quotas, held, asks)}
	for _, ask := range asks {
		if _, no := room.Refused[ask.Key]; !no {
			room.mine[ask.Key] = &promise{usage: ask.Usage, before: promises[ask.Key]}
		}
	}
	if promises == nil {
		promises = map[types.NamespacedName]*promise{}
		l.promises[namespace] = promises
	}
	maps.Copy(promises, room.mine)
	return room
}

// Wrote notes what came of a NodeWorkload that was promised room: its resourceVersion, or an error.
func (r *Room) Wrote(key types.NamespacedName, version string, err error, now time.Time) {
	if r == nil || r.mine[key] == nil {
		return
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if err == nil || !certain(err) {
		p := r.mine[key]
		p.written, p.until = true, now.Add(maxUnseen)
		if err == nil {
			p.version = version
		}
	}
}

// certain reports whether an error says that nothing was written.
func certain(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsTooManyRequests(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Close gives back what was not used.
func (r *Room) Close() {
	if r == nil {
		return
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	promises := r.ledger.promises[r.namespace]
	for key, p := range r.mine {
		switch {
		case p.written:
			p.before = nil
		case p.before != nil:
			promises[key] = p.before
		default:
			delete(promises, key)
		}
	}
	if len(promises) == 0 {
		delete(r.ledger.promises, r.namespace)
	}
}

// Wait notes whether a workload waits for room.
func (l *Ledger) Wait(workload types.NamespacedName, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch list := l.waiting[workload.Namespace]; {
	case waits && list == nil:
		l.waiting[workload.Namespace] = map[string]bool{workload.Name: true}
	case waits:
		list[workload.Name] = true
	default:
		delete(list, workload.Name)
		if len(list) == 0 {
			delete(l.waiting, workload.Namespace)
		}
	}
}

// Waiting are the names of the workloads of a namespace that wait for room, in order.
func (l *Ledger) Waiting(namespace string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.waiting[namespace]))
}
