// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// Whatever NodeWorkloads report at once, a status shows the newest 20 of it and counts all
// forced kills, as if all records had been kept.
func TestPendingIsBoundedAndCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		l.Begin(managertest.Epoch)
		var all []v1alpha1.NodeKillRecord
		for node := range rapid.IntRange(0, 60).Draw(t, "nodes") {
			var kills []v1alpha1.KillRecord
			for i := range rapid.IntRange(0, 10).Draw(t, "kills") {
				outcome := rapid.SampledFrom([]v1alpha1.KillOutcome{v1alpha1.KillOutcomeForced, v1alpha1.KillOutcomeGraceful, v1alpha1.KillOutcomeFailed}).Draw(t, "outcome")
				kill := managertest.Kill(fmt.Sprint("k", i), rapid.IntRange(0, 1000).Draw(t, "second"), v1alpha1.KillPhaseDone, outcome)
				kill.ContainerID = fmt.Sprint("c", i%3)
				kills = append(kills, kill)
			}
			nw := managertest.NodeWorkload(fmt.Sprint("n", node), "mw", kills...)
			l.Observe(nw)
			for i := range kills {
				all = append(all, killOf(nw, &kills[i]))
			}
		}
		pending := l.Pending("mw", time.Time{})
		if len(pending.Records) > maxRecentKills || len(pending.Further) > maxFurther {
			t.Fatalf("%d records and %d further ones are kept", len(pending.Records), len(pending.Further))
		}
		ended := NewlyEnded(nil, slices.Concat(pending.Records, pending.Further), nil, managertest.Epoch)
		more, forced := pending.Ended()
		if got, want := Forced(ended)+forced, Forced(all); got != want {
			t.Fatalf("%d forced, want %d", got, want)
		}
		if got := len(ended) + int(more); got != len(all) {
			t.Fatalf("%d ended, want %d", got, len(all))
		}
		if !slices.ContainsFunc(all, func(r v1alpha1.NodeKillRecord) bool { return r.Outcome == v1alpha1.KillOutcomeFailed }) {
			want, got := MergeKills(nil, all, later), MergeKills(nil, pending.Records, later)
			if diff := cmp.Diff(describeKills(want), describeKills(got)); diff != "" {
				t.Fatalf("shown (-want +got):\n%s", diff)
			}
		}
		l.Settled("mw", pending, managertest.Epoch)
		if left := l.Pending("mw", time.Time{}); !left.Empty() {
			t.Fatalf("left: %+v", left)
		}
	})
}

// A manager that begins to lead does not count what ended long before, of which it keeps no
// record.
func TestUncountedBelongsToThisManager(t *testing.T) {
	report := func(l *Ledger, node string) {
		var kills []v1alpha1.KillRecord
		for i := range maxRecentKills {
			kill := managertest.Kill(fmt.Sprint("k", i), 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)
			kill.FinishTime = new(metav1.NewMicroTime(managertest.Epoch.Add(time.Minute)))
			kills = append(kills, kill)
		}
		l.Observe(managertest.NodeWorkload(node, "mw", kills...))
	}
	// 500 records, of which 20 are kept whole and 200 in short.
	for begin, want := range map[time.Time]int32{managertest.Epoch: 280, managertest.Epoch.Add(time.Hour): 0} {
		l := newLedger()
		for i := range 5 {
			report(l, fmt.Sprint("before", i))
		}
		l.Begin(begin)
		for i := range 20 {
			report(l, fmt.Sprint("n", i))
		}
		report(l, "n1") // nothing is reported twice
		if got, _ := l.Pending("mw", time.Time{}).Ended(); got != want {
			t.Errorf("leads since %s: %d uncounted, want %d", begin, got, want)
		}
	}
}
