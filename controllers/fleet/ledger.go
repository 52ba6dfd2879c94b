// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Ledger remembers what NodeWorkloads reported until it stands in the status
// of their ManagedWorkload. It is fed by the watch, in order, so that the last
// words of a NodeWorkload that is gone are not lost. Of each NodeWorkload it keeps which
// records it has seen, and of each ManagedWorkload a bounded number of records.
type Ledger struct {
	shims *Shims

	mu    sync.Mutex
	books map[types.UID]*killBook
	// shares are the NodeWorkloads whose end was not seen yet, by UID.
	shares map[types.UID]*reports
	// since is when this manager began to lead, and follows says that another one leads.
	since   time.Time
	follows bool
}

// killBook is the page of one ManagedWorkload.
type killBook struct {
	// owner is the name of that object.
	owner types.NamespacedName
	pending
	// live is how many NodeWorkloads there are whose end was not seen yet.
	live int
	// written is when recentKills were last written.
	written time.Time
	// urgent: the pending records are all that is left of a NodeWorkload.
	urgent bool
}

// reports are what one NodeWorkload reported last.
type reports struct {
	owner types.UID
	kills []reported
}

// reported is a kill record that was seen, as two hashes. content is 0 when it had ended:
// a kill ends once, and later its texts may only get shorter.
type reported struct{ id, content uint64 }

// marks is what the hashes of this process begin with.
var marks = maphash.MakeSeed()

// NewLedger returns an empty ledger of a manager that begins now. How far the nodes' clocks are
// off it knows from shims.
func NewLedger(shims *Shims) *Ledger {
	return &Ledger{shims: shims, books: map[types.UID]*killBook{}, shares: map[types.UID]*reports{}, since: time.Now()}
}

// Follow notes that this manager does not lead yet: what is over is another's to report.
func (l *Ledger) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follows = true
}

// Begin notes that this manager leads from now on: what ended long before was another's to
// report.
func (l *Ledger) Begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.follows = now, false
	for _, b := range l.books {
		b.uncounted = nil
	}
}

// Since is when this manager began to lead.
func (l *Ledger) Since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// bookOf is the page of the object that controls nw, nil if none does.
func (l *Ledger) bookOf(nw *v1alpha1.NodeWorkload) *killBook {
	ref := writes.WorkloadReference(nw)
	if ref == nil {
		return nil
	}
	b, ok := l.books[ref.UID]
	if !ok {
		b = &killBook{owner: types.NamespacedName{Namespace: nw.Namespace, Name: ref.Name}}
		l.books[ref.UID] = b
	}
	return b
}

// Observe takes over what nw reports that it did not report before. words reports whether
// there was anything for an object that controls it.
func (l *Ledger) Observe(nw *v1alpha1.NodeWorkload) (words bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, words = l.take(nw)
	return words
}

// Gone takes over the last words of a NodeWorkload that was deleted. words reports whether
// there were any.
func (l *Ledger) Gone(nw *v1alpha1.NodeWorkload) (words bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, words := l.take(nw)
	if b != nil {
		b.urgent = b.any()
	}
	l.close(nw.UID)
	return words
}

// take takes over what nw reports, and returns the page of the object that controls it. l.mu is
// held.
func (l *Ledger) take(nw *v1alpha1.NodeWorkload) (b *killBook, words bool) {
	if mirror.Is(nw) {
		return nil, false
	}
	known := l.shares[nw.UID]
	if known != nil && known.owner != writes.ControllerUID(nw) {
		l.close(nw.UID)
	}
	b = l.bookOf(nw)
	if b == nil {
		l.shares[nw.UID] = l.orphaned(nw, known)
		return nil, false
	}
	if l.shares[nw.UID] == nil {
		b.live++
	}
	now, words := b.add(nw, known, l.shims.clock(nw.Spec.NodeName), l.since)
	l.shares[nw.UID] = now
	return b, words
}

// orphaned is what a NodeWorkload reports that no object controls. What ends meanwhile waits
// for no status, and counts at once.
func (l *Ledger) orphaned(nw *v1alpha1.NodeWorkload, last *reports) *reports {
	now := reportsOf(nw)
	for i, mark := range now.kills {
		if last != nil && !l.follows && nw.Status.Kills[i].Phase == v1alpha1.KillPhaseDone && !last.has(mark) {
			CountKills(Ending{nw.Status.Kills[i].Trigger, nw.Status.Kills[i].Outcome}, 1)
		}
	}
	return now
}

// close ends what is kept of a NodeWorkload. l.mu is held.
func (l *Ledger) close(uid types.UID) {
	known, ok := l.shares[uid]
	if !ok {
		return
	}
	delete(l.shares, uid)
	if b := l.books[known.owner]; b != nil {
		b.live--
		if l.follows && b.live == 0 {
			delete(l.books, known.owner)
		}
	}
}

// Lost notes that a NodeWorkload is gone whose last words were missed.
func (l *Ledger) Lost(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.shares[uid]; known != nil {
		if b := l.books[known.owner]; b != nil {
			b.urgent = b.any()
		}
		l.close(uid)
	}
}

// add keeps the records of nw that differ from those it reported last: all of them, for
// those that no status shows count, too. Where nw belonged to another object, or to none, it
// keeps the others as well, as counted if they had ended.
func (b *killBook) add(nw *v1alpha1.NodeWorkload, last *reports, clock offset, since time.Time) (now *reports, words bool) {
	now = reportsOf(nw)
	moved := last != nil && last.owner != now.owner
	for i, mark := range now.kills {
		kill := &nw.Status.Kills[i]
		old := last.has(mark)
		if old && !moved {
			continue
		}
		words = true
		r := killOf(nw, kill)
		r.ObservedTime = b.known(keyOf(&r)).ObservedTime
		at := time.Now()
		switch {
		case r.ObservedTime != nil:
		case clock.wrong() && last.isNews(kill, mark):
			r.ObservedTime = new(metav1.NewMicroTime(at)) // by its own time it could be older than all others
		case last == nil && r.StartTime.After(at.Add(clockTolerance)):
			at = nw.CreationTimestamp.Time // an earlier run of the manager may have seen it long ago
		}
		b.keep(sighted{
			NodeKillRecord: withObservedTime(r, at), made: nw.CreationTimestamp.Time,
			counted: old && kill.Phase == v1alpha1.KillPhaseDone,
		}, since)
	}
	return now, words
}

// reportsOf is what is kept of a NodeWorkload's records.
func reportsOf(nw *v1alpha1.NodeWorkload) *reports {
	now := &reports{owner: writes.ControllerUID(nw)}
	if n := len(nw.Status.Kills); n > 0 {
		now.kills = make([]reported, 0, n)
	}
	for i := range nw.Status.Kills {
		now.kills = append(now.kills, markOf(&nw.Status.Kills[i]))
	}
	return now
}

// has reports whether a record needs no second look.
func (r *reports) has(mark reported) bool {
	return r != nil && slices.ContainsFunc(r.kills, func(known reported) bool {
		return known.id == mark.id && (known.content == 0 || known.content == mark.content)
	})
}

// isNews reports whether a record was not there when the manager looked last, or is an end.
func (r *reports) isNews(k *v1alpha1.KillRecord, mark reported) bool {
	if r == nil {
		return false // the first look: it may have been there for long
	}
	known := slices.ContainsFunc(r.kills, func(known reported) bool { return known.id == mark.id })
	return !known || k.Phase == v1alpha1.KillPhaseDone
}

// markOf is what is kept of a record to know it again.
func markOf(r *v1alpha1.KillRecord) reported {
	mark := reported{id: maphash.String(marks, r.ID)}
	if r.Phase == v1alpha1.KillPhaseDone {
		return mark
	}
	// A record consists of texts, numbers and times: encoding it cannot fail.
	if data, err := json.Marshal(r); err == nil {
		mark.content = max(maphash.Bytes(marks, data), 1)
	}
	return mark
}

// Pending are the records that the status of an object, which was made at a time, may not show
// yet.
func (l *Ledger) Pending(owner types.UID, born time.Time) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok || !b.any() {
		return Pending{}
	}
	return b.of(born)
}

// Settled forgets records that the status of owner takes account of since now.
func (l *Ledger) Settled(owner types.UID, settled Pending, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	if !ok || settled.Empty() {
		return
	}
	b.written = now
	for _, r := range settled.Records {
		if known, ok := b.records[keyOf(&r)]; ok && equality.Semantic.DeepEqual(known.NodeKillRecord, r) {
			delete(b.records, keyOf(&r))
		}
	}
	b.settle(settled)
	b.urgent = b.urgent && b.any()
}

// LastWrite is when recentKills were last written, or never when they may not wait:
// the last records of a NodeWorkload that is gone are kept only here.
func (l *Ledger) LastWrite(owner types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.books[owner]; ok && !b.urgent {
		return b.written
	}
	return time.Time{}
}

// AllGone reports whether the end of every NodeWorkload of owner was seen.
func (l *Ledger) AllGone(owner types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[owner]
	return !ok || b.live == 0
}

// Forget drops what is remembered of objects of that name, but of the one with the UID there, "" for none. What
// NodeWorkloads have reported that are still there counts once, whoever takes them over.
func (l *Ledger) Forget(owner types.NamespacedName, there types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, b := range l.books {
		if b.owner != owner || uid == there {
			continue
		}
		if !l.follows {
			b.count(l.since)
		}
		delete(l.books, uid)
	}
	for _, r := range l.shares {
		if l.books[r.owner] == nil {
			r.owner = ""
		}
	}
}
