// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Said is what a condition says, without since when.
type Said struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// maxSaid is how many different ones a generation of them may have: they name Pods.
const maxSaid = 1 << 14

var saids = &shared[*Said]{most: maxSaid}

// saidOf is what the condition of a type says, and where it is.
func saidOf(conditions []metav1.Condition, kind string) (said *Said, at int16) {
	at = indexOf(conditions, kind)
	if at < 0 {
		return nil, at
	}
	c := conditions[at]
	return saids.one(string(c.Status)+"\x00"+c.Reason+"\x00"+c.Message, func() *Said {
		return &Said{metav1.ConditionStatus(intern(string(c.Status))), intern(c.Reason), intern(c.Message)}
	}).value, at
}

func indexOf(conditions []metav1.Condition, kind string) int16 {
	return int16(slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind }))
}

// same reports whether both, either of which may be nil, say the same.
func (s *Said) same(o *Said) bool { return s == o || s != nil && o != nil && *s == *o }

// SayReserved makes the condition Reserved say something else; nil removes it. now is nil where
// nothing changes. All other conditions stay as they are.
func (s *Share) SayReserved(said *Said, now metav1.Time) *writes.Edit {
	if s.Reserved.same(said) {
		return nil
	}
	if s.Reserved == nil {
		return s.addition(metav1.Condition{
			Type: v1alpha1.ConditionReserved, Status: said.Status, ObservedGeneration: s.Generation,
			LastTransitionTime: now, Reason: said.Reason, Message: said.Message,
		})
	}
	edit, at := s.conditionEdit(v1alpha1.ConditionReserved, s.reservedAt)
	if said == nil {
		edit.Remove("status", "conditions", at)
		return edit
	}
	if s.Reserved.Status != said.Status {
		edit.Replace(said.Status, "status", "conditions", at, "status")
		edit.Replace(now, "status", "conditions", at, "lastTransitionTime")
	}
	edit.Replace(said.Reason, "status", "conditions", at, "reason")
	edit.Replace(said.Message, "status", "conditions", at, "message")
	edit.Set(s.Generation, "status", "conditions", at, "observedGeneration")
	return edit
}
