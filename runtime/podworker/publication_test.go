// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"testing"
)

// The object is released only when its last status and its last events have left.
func TestFlushed(t *testing.T) {
	failure := errors.New("the API server does not answer")
	tests := map[string]struct {
		do   func(m *memory)
		want bool
	}{
		"nothing to publish": {func(*memory) {}, true},
		"an event is due": {func(m *memory) {
			m.notify(notice{Type: "Normal", Reason: "Killed"})
		}, false},
		"being written": {func(m *memory) {
			m.published.pending = true
			m.beginDispatch()
		}, false},
		"written": {func(m *memory) {
			m.published.pending = true
			m.notify(notice{Type: "Normal", Reason: "Killed"})
			_, _ = m.endDispatch(m.beginDispatch(), nil)
		}, true},
		"an event came while the status was written": {func(m *memory) {
			d := m.beginDispatch()
			m.notify(notice{Type: "Normal", Reason: "Killed"})
			_, _ = m.endDispatch(d, nil)
		}, false},
		"failed": {func(m *memory) {
			m.published.pending = true
			_, _ = m.endDispatch(m.beginDispatch(), failure)
		}, false},
		"the object is gone": {func(m *memory) {
			m.published.pending = true
			_, _ = m.endDispatch(m.beginDispatch(), ErrGone)
		}, true},
		"the API does not take the status": {func(m *memory) {
			m.published.pending = true
			_, _ = m.endDispatch(m.beginDispatch(), ErrRefused)
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMemory(Identity{UID: "a"}, "boot")
			test.do(m)
			if got := m.flushed(); got != test.want {
				t.Errorf("flushed = %v, want %v", got, test.want)
			}
		})
	}
}
