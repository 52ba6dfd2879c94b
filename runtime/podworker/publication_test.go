// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
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

// A status that another client changed is written again, but not the manager's part.
func TestOverwritten(t *testing.T) {
	tests := map[string]struct {
		change func(*memory, *v1alpha1.NodeWorkloadStatus)
		want   bool
	}{
		"as published": {func(*memory, *v1alpha1.NodeWorkloadStatus) {}, false},
		"another phase": {func(_ *memory, st *v1alpha1.NodeWorkloadStatus) {
			st.Phase = corev1.PodFailed
		}, true},
		"a condition is lost": {func(_ *memory, st *v1alpha1.NodeWorkloadStatus) { st.Conditions = nil }, true},
		"the manager's conditions": {func(_ *memory, st *v1alpha1.NodeWorkloadStatus) {
			st.Conditions = append(st.Conditions, metav1.Condition{Type: v1alpha1.ConditionShimResponding}, metav1.Condition{Type: v1alpha1.ConditionReserved})
		}, false},
		"a newer one waits": {func(m *memory, st *v1alpha1.NodeWorkloadStatus) {
			m.published.pending, st.Phase = true, corev1.PodFailed
		}, false},
		"a newer one is being written": {func(m *memory, st *v1alpha1.NodeWorkloadStatus) {
			m.published.writing, st.Phase = true, corev1.PodFailed
		}, false},
		"none was published": {func(m *memory, st *v1alpha1.NodeWorkloadStatus) {
			m.rec.PodStatus, st.Phase = nil, corev1.PodFailed
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMemory(Identity{UID: "a"}, "boot")
			m.rec.PodStatus = &corev1.PodStatus{Phase: corev1.PodRunning}
			m.rec.Status = v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning, Conditions: []metav1.Condition{{Type: "Ready"}}}
			current := m.rec.Status.DeepCopy()
			tt.change(m, current)
			pending := m.published.pending
			if got := m.overwritten(current); got != tt.want {
				t.Errorf("overwritten = %t, want %t", got, tt.want)
			}
			if m.published.pending != (pending || tt.want) {
				t.Errorf("is written again: %t", m.published.pending)
			}
		})
	}
}
