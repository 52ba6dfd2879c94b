// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Read finds what was written last, and nothing where nothing was written.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []map[string][]byte{
		{}, {"a": []byte("1"), "d/e/f": []byte("2")}, {"a": []byte("3"), "d/g": []byte("4")},
	} {
		if len(want) > 0 {
			content := files()
			for name, data := range want {
				content.Files[name] = file(string(data))
			}
			mustWrite(t, dir, content)
		}
		got, err := Read(openRoot(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}
