// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScheduleHasEveryKind(t *testing.T) {
	for seed := range uint64(50) {
		counts := map[Kind]int{}
		plan := schedule(seed, 100)
		for i, p := range plan {
			counts[p.kind]++
			if p.kind == RestoreEtcd && i < 25 {
				t.Errorf("seed %d: fault %d restores etcd, before there are copies from minutes ago", seed, i+1)
			}
		}
		for _, kind := range Kinds {
			if counts[kind] < least {
				t.Errorf("seed %d: %d times %q, want %d", seed, counts[kind], kind, least)
			}
		}
		if len(plan) != 100 {
			t.Errorf("seed %d: %d faults", seed, len(plan))
		}
	}
}

func TestShortScheduleRepeatsNoKind(t *testing.T) {
	first := schedule(3, 12)
	seen := map[Kind]bool{}
	for _, p := range first {
		if seen[p.kind] {
			t.Errorf("%q twice among a dozen", p.kind)
		}
		seen[p.kind] = true
	}
	allowed := cmp.AllowUnexported(planned{})
	if diff := cmp.Diff(first, schedule(3, 12), allowed); diff != "" {
		t.Errorf("the same seed gives another schedule:\n%s", diff)
	}
	if cmp.Equal(first, schedule(4, 12), allowed) {
		t.Error("another seed gives the same schedule")
	}
}
