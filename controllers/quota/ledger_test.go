// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// known are NodeWorkloads of one namespace, and the resourceVersions that were seen.
type known struct {
	mu     sync.Mutex
	usages map[types.NamespacedName]*Usage
	seen   map[string]bool
}

func (k *known) Usages(string) map[types.NamespacedName]*Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.usages)
}

func (k *known) Seen(version string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen[version]
}

var start = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// Of many that ask at the same time no more are served than there is room for, although no
// NodeWorkload is known yet.
func TestRoomIsGivenOnce(t *testing.T) {
	l := NewLedger(&known{})
	quotas := []*corev1.ResourceQuota{limit(list("requests.cpu", "1"), nil)}
	var mu sync.Mutex
	served := 0
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			room := l.Ask("ns", quotas, asking(cpu("300m"), fmt.Sprint("w", i)), start)
			defer room.Close()
			if len(room.Refused) == 0 {
				room.Wrote(key(fmt.Sprint("w", i)), fmt.Sprint(i), nil, start)
				mu.Lock()
				served++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if served != 3 {
		t.Errorf("%d were served, want 3", served)
	}
}

// A promise lasts until its NodeWorkload is known, and not longer than it has to.
func TestPromises(t *testing.T) {
	quotas := []*corev1.ResourceQuota{limit(list("cpu", "300m"), nil)}
	resource := schema.GroupResource{Resource: "nodeworkloads"}
	for name, tt := range map[string]struct {
		came  func(*known, *Room)
		after time.Duration
		want  bool
	}{
		"it is being written":      {func(*known, *Room) {}, time.Hour, false},
		"nothing was tried":        {func(_ *known, r *Room) { r.Close() }, 0, true},
		"it was refused":           {closing(apierrors.NewForbidden(resource, "a", errors.New("no"))), 0, true},
		"the answer is lost":       {closing(errors.New("connection reset")), 59 * time.Second, false},
		"the answer is lost long":  {closing(errors.New("connection reset")), time.Minute, true},
		"it is not known yet":      {closing(nil), 59 * time.Second, false},
		"it does not turn up":      {closing(nil), time.Minute, true},
		"it is known and runs":     {func(k *known, r *Room) { closing(nil)(k, r); k.seen["7"], k.usages[key("a")] = true, cpu("300m") }, 0, false},
		"it is known, and is gone": {func(k *known, r *Room) { closing(nil)(k, r); k.seen["7"] = true }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &known{usages: map[types.NamespacedName]*Usage{}, seen: map[string]bool{}}
			l := NewLedger(k)
			tt.came(k, l.Ask("ns", quotas, asking(cpu("300m"), "a"), start))
			again := l.Ask("ns", quotas, asking(cpu("300m"), "b"), start.Add(tt.after))
			if got := len(again.Refused) == 0; got != tt.want {
				t.Errorf("there is room for another one: %t, want %t", got, tt.want)
			}
		})
	}
}

func closing(err error) func(*known, *Room) {
	return func(_ *known, r *Room) {
		r.Wrote(key("a"), "7", err, start)
		r.Close()
	}
}

// A further change of a NodeWorkload whose last one is not known yet, and that fails, leaves
// that one counted.
func TestEarlierPromiseStays(t *testing.T) {
	l := NewLedger(&known{})
	quotas := []*corev1.ResourceQuota{limit(list("cpu", "1"), nil)}
	closing(nil)(nil, l.Ask("ns", quotas, asking(cpu("800m"), "a"), start))
	l.Ask("ns", quotas, asking(cpu("100m"), "a"), start).Close()
	if room := l.Ask("ns", quotas, asking(cpu("300m"), "b"), start); len(room.Refused) != 1 {
		t.Error("what was written before does not count any more")
	}
	if room := l.Ask("other", quotas, asking(cpu("300m"), "b"), start); len(room.Refused) != 0 {
		t.Error("another namespace is out of room, too")
	}
}
