// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// made makes all kinds of cases that need no known ones, and the first of the
// others from those.
func made(seed uint64, n int) []any {
	d := newDice(seed, uint64(n))
	pod := d.pod(n, true)
	observed := d.observed(pod)
	plan := &Plan{Pod: pod, PodStatus: observed}
	status := &Status{Pod: pod, PodStatus: observed}
	return []any{
		NewGrace(seed, n), NewEffectiveGrace(seed, n), NewBackoff(seed, n), NewKill(seed, n), NewOrder(seed, n), NewGC(seed, n),
		NewPlan(seed, n, []*Plan{plan}), NewStatus(seed, n, []*Status{status}),
		NewThresholds(seed, n), NewRank(seed, n), NewEviction(seed, n),
		NewRestart(seed, n, []*Restart{{Pod: pod, PodStatus: observed}}), NewSync(seed, n, []*Sync{{Pod: pod, PodStatus: observed}}),
	}
}

func TestSameSeedSameCases(t *testing.T) {
	for n := range 300 {
		first, err := json.Marshal(made(7, n))
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(made(7, n))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first, again) {
			t.Fatalf("case %d is another one the second time:\n%s\n%s", n, first, again)
		}
	}
}

// What is seen can have happened: no two of an ID or of a time, and only the
// newest of a name may run.
func TestObservedIsPossible(t *testing.T) {
	for n := range 2000 {
		d := newDice(3, uint64(n))
		pod := d.pod(n, false)
		s := d.observed(pod)
		for range 5 {
			d.mutate(pod, &s)
		}
		var ids, names []string
		for i, c := range s.Containers {
			if slices.Contains(ids, c.ID) {
				t.Errorf("%d: two of %s", n, c.ID)
			}
			if i > 0 && !c.CreatedAt.Before(s.Containers[i-1].CreatedAt.Time) {
				t.Errorf("%d: %s is not older than what is before it", n, c.ID)
			}
			if slices.Contains(names, c.Name) && c.State != "exited" {
				t.Errorf("%d: %s is %s, and there is a newer one", n, c.ID, c.State)
			}
			ids, names = append(ids, c.ID), append(names, c.Name)
		}
	}
}
