// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The content is on the disk before its name is, and the name before the call returns.
func TestReplaceIsOnTheDisk(t *testing.T) {
	sync := toDisk
	t.Cleanup(func() { toDisk = sync })
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var synced []string
	toDisk = func(f *os.File) error {
		name := filepath.Base(f.Name())
		if _, err := os.Stat(path); err == nil {
			name += ", renamed"
		}
		synced = append(synced, name)
		return sync(f)
	}
	if err := Replace(path, []byte("content")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"f" + TemporarySuffix, filepath.Base(dir) + ", renamed"}, synced); diff != "" {
		t.Errorf("(-want +synced)\n%s", diff)
	}
	toDisk = func(*os.File) error { return errors.New("input/output error") }
	if Replace(path, []byte("other")) == nil {
		t.Error("a write that did not reach the disk succeeded")
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "content" {
		t.Errorf("content %q, error %v, want the old one", content, err)
	}
}
