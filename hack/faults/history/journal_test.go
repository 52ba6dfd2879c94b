// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseLife(t *testing.T) {
	const text = `2026-01-01T00:00:00Z started pid=1 args=["--mark=uid-1/3/2/7" "--on-term=ignore"]
2026-01-01T00:00:00.2Z alive
2026-01-01T00:00:01Z not alone: /dir/a.lock is locked
2026-01-01T00:00:02Z signal SIGUSR1
2026-01-01T00:00:03Z signal SIGTERM
2026-01-01T00:00:04Z signal SIGTERM
2026-01-01T00:00:05Z stopped code=3
2026-01-01T00:00:0`
	got, found, err := ParseLife("w", "sidecar", "id", text)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	want := Life{
		Workload: "w", Container: "sidecar", Sidecar: true, ID: "id", UID: "uid-1", Incarnation: 3, Revision: 2, Grace: 7 * time.Second,
		Start: at(0), Last: at(5), Hook: at(2), Term: at(3), Terms: 2, Stopped: true, Code: 3, NotAlone: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseLifeWithoutAStart(t *testing.T) {
	if _, found, err := ParseLife("w", "a", "id", "2026-01-01T00:00"); found || err != nil {
		t.Error(found, err)
	}
	if _, _, err := ParseLife("w", "a", "id", "no time\n"); err == nil {
		t.Error("no error for a line without a time")
	}
}
