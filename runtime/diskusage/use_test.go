// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A pod without a limit is measured by volume and container, with its inodes; what is not there
// uses nothing.
func TestUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	places := Places{EmptyDirs: filepath.Join(dir, "emptydirs"), Logs: filepath.Join(dir, "logs")}
	write(t, filepath.Join(places.EmptyDirs, "v/a/file"), 16*mib)
	write(t, filepath.Join(places.Logs, "c/0.log"), mib)
	k := New(Config{Places: func(Pod) Places { return places }, Logger: logr.Discard()})
	for range 2 {
		got, err := k.Use(t.Context(), Pod{UID: "a"})
		for _, all := range []map[string]plan.DiskUse{got.Volumes, got.Logs} {
			for _, use := range all {
				*use.Bytes /= mib
			}
		}
		want := Use{
			Volumes: map[string]plan.DiskUse{"v": {Bytes: new(int64(16)), Inodes: new(int64(3))}},
			Logs:    map[string]plan.DiskUse{"c": {Bytes: new(int64(1)), Inodes: new(int64(2))}},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
	places = Places{EmptyDirs: filepath.Join(dir, "no"), Logs: filepath.Join(dir, "none")}
	if got, err := k.Use(t.Context(), Pod{UID: "a"}); len(got.Volumes)+len(got.Logs) > 0 || err != nil {
		t.Errorf("%+v, error %v", got, err)
	}
}
