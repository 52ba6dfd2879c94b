// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// instance is one of the instances of a workload's name, as far as it matters to which
// of them may start containers.
type instance struct {
	uid types.UID
	// order of the instance; the older has the smaller one.
	order int64
	// known: it has a worker. One without is an orphan's, and starts nothing.
	known bool
	// present: the runtime has something of it.
	present bool
	// turn: it may start containers, and does not lose that before it is gone.
	turn bool
}

// waitsFor decides which other instance of the same name one waits for before it starts
// anything; "" if none. Whatever the runtime has of another holds the start. Where both
// have something there, the API decides: live is the UID that the API server has, ""
// if that is not known, and ask says that it matters. Between one from a file and one from the
// API it cannot: both are wanted, and the older continues. Of two instances at most one waits for
// the other, unless that one is not in the API and will be ended.
func waitsFor(me instance, others []instance, live types.UID) (uid types.UID, ask bool) {
	slices.SortFunc(others, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.uid, b.uid))
	})
	for _, other := range others {
		older := cmp.Or(cmp.Compare(other.order, me.order), cmp.Compare(other.uid, me.uid)) < 0
		switch {
		case other.turn, me.turn && other.present, other.present && !other.known, other.present && !me.present:
			return other.uid, false
		case me.turn, me.present && !other.present:
		case me.present:
			waits, asks := waitsWhereBothAre(me, other, older, live)
			if waits {
				return other.uid, asks
			}
			ask = ask || asks
		case older:
			return other.uid, false
		}
	}
	return "", ask
}

// waitsWhereBothAre decides the same for two that the runtime has something of.
func waitsWhereBothAre(me, other instance, older bool, live types.UID) (waits, ask bool) {
	switch {
	case v1alpha1.IsStatic(me.uid) != v1alpha1.IsStatic(other.uid):
		return older, false
	case live == me.uid, live == other.uid:
		return true, false
	}
	return older, true
}

// mayStart decides whether an instance may start containers: "", or the UID of the one
// that it waits for. live is the UID that the API has, "" if that is not known. Where it
// matters, ask is true, and nothing is decided before asked is.
func (p *Pool) mayStart(w *worker, live types.UID, asked bool) (uid types.UID, ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := w.id.key()
	me, others := p.instance(w.id.UID, key), p.othersOf(w.id.UID, key)
	uid, ask = waitsFor(me, others, live)
	taken := p.turns[key] != "" || slices.ContainsFunc(others, func(o instance) bool { return o.present && v1alpha1.IsStatic(o.uid) != v1alpha1.IsStatic(me.uid) })
	if (uid == "" && (asked || !ask)) || (live == w.id.UID && !taken) {
		p.turns[key] = w.id.UID
	}
	return uid, ask
}

// othersOf are the other instances of a name; p.mu is held.
func (p *Pool) othersOf(me types.UID, key types.NamespacedName) []instance {
	var others []instance
	for _, w := range p.named(func(k types.NamespacedName) bool { return k == key }) {
		if w.id.UID != me {
			others = append(others, p.instance(w.id.UID, key))
		}
	}
	for _, uid := range p.present[key] {
		if _, known := p.workers[uid]; !known && uid != me {
			others = append(others, p.instance(uid, key))
		}
	}
	return others
}

// instance is what is known of an instance; p.mu is held.
func (p *Pool) instance(uid types.UID, key types.NamespacedName) instance {
	i := instance{uid: uid, present: slices.Contains(p.present[key], uid), turn: p.turns[key] == uid}
	if w, known := p.workers[uid]; known {
		i.known, i.order = true, w.order
	}
	return i
}

// freeName lets another instance have the turn of one that is gone; p.mu is held.
func (p *Pool) freeName(w *worker) {
	key := w.id.key()
	if p.turns[key] == w.id.UID {
		delete(p.turns, key)
	}
	p.present[key] = slices.DeleteFunc(p.present[key], func(uid types.UID) bool { return uid == w.id.UID })
	if len(p.present[key]) == 0 {
		delete(p.present, key)
	}
}
