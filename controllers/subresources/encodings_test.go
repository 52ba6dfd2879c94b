// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import "testing"

// All that send one version of an object at the same time share what they send, and afterwards it
// is gone.
func TestEncodingsAreShared(t *testing.T) {
	e := newEncodings()
	get := func(version, data string) (*byte, func()) {
		t.Helper()
		o := object("one", data)
		o.ResourceVersion = version
		content, done, err := e.of(o)
		if err != nil {
			t.Fatal(err)
		}
		return &content[0], done
	}
	first, firstDone := get("1", "a")
	second, secondDone := get("1", "a")
	other, otherDone := get("2", "b")
	if first != second || first == other {
		t.Error("each sender has its own, or one for two versions")
	}
	firstDone()
	if again, done := get("1", "a"); again != second {
		t.Error("gone while it is sent")
	} else {
		done()
	}
	secondDone()
	otherDone()
	if len(e.byName) != 0 {
		t.Errorf("%d stay", len(e.byName))
	}
	if a, done := get("", "a"); a == nil || len(e.byName) != 0 {
		t.Error("what has no version is shared")
	} else {
		done()
	}
}
