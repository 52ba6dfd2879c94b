// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

// Etcd is restored from the youngest copy that is old enough, and no copy is kept
// that is older.
func TestBackups(t *testing.T) {
	folder := t.TempDir()
	var copies backups
	for _, age := range []time.Duration{4 * backupAge, 2 * backupAge, backupAge + time.Second, backupAge / 2, 0} {
		at := time.Now().Add(-age)
		one := filepath.Join(folder, at.String())
		if err := os.Mkdir(one, 0o700); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, backup{one, at})
	}
	if young := copies[3:]; young.old() != young[0] {
		t.Error("without a copy that is old enough, the oldest is taken")
	}
	kept, err := copies.prune()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 3 || kept[0] != copies[2] || kept.old() != copies[2] {
		t.Errorf("kept %v of %v", kept, copies)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 3 {
		t.Errorf("%d folders are left, %v", len(left), err)
	}
}

// A campaign in which a kind met nothing too often has not shown what it is to show.
func TestMissingKinds(t *testing.T) {
	r := Result{Faults: map[Kind]int{}}
	for _, kind := range Kinds {
		r.Faults[kind] = least
	}
	if got := r.Missing(100); len(got) != 0 {
		t.Errorf("missing %v of a whole campaign", got)
	}
	r.Faults[DiskFull] = least - 1
	if got := r.Missing(100); len(got) != 1 || got[0] != DiskFull {
		t.Errorf("missing %v, want %q", got, DiskFull)
	}
	if got := r.Missing(12); len(got) != 0 {
		t.Errorf("missing %v of a dozen", got)
	}
}
