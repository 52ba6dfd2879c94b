// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// A node counts each version of an object once, when all of it has arrived, and what is not
// there not at all.
func TestReceiversRead(t *testing.T) {
	line := func(kind, name, objectVersion string, state subresources.ObjectState) string {
		object, err := json.Marshal(subresources.NodeObject{
			ObjectName: name, ObjectVersion: objectVersion, State: state, Data: map[string][]byte{"file": content(100_000)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return `{"type":"` + kind + `","object":` + string(object) + "}\n"
	}
	sent := line("ADDED", "a", "1", subresources.ObjectPresent) + line("ADDED", "a", "1", subresources.ObjectPresent) +
		line("ADDED", "b", "", subresources.ObjectNotFound) + line("MODIFIED", "a", "2", subresources.ObjectPresent)
	cut := line("ADDED", "c", "3", subresources.ObjectPresent)[:50_000]
	r := newReceivers(nil)
	if err := r.read(strings.NewReader(sent+cut), map[version]bool{}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if diff := cmp.Diff(map[version]int{{"a", "1"}: 1, {"a", "2"}: 1}, r.nodes, cmp.AllowUnexported(version{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := r.received.Load(), int64(len(sent+cut)); got != want {
		t.Errorf("received %d bytes, want %d", got, want)
	}
}
