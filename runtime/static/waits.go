// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// waits is why a change of a workload's file waits, and since when something of it does.
type waits struct {
	reason, message string
	since           metav1.Time
}

// sayWaits says in the status of what runs why a change of its file waits. s.mu is held.
func (s *Source) sayWaits(now time.Time) {
	for uid, w := range s.workloads {
		reason, message := s.whyWaits(w)
		if w.waits.reason == reason && w.waits.message == message {
			continue
		}
		since := w.waits.since
		if w.waits.reason == "" {
			since = metav1.NewTime(now)
		}
		w.waits = waits{reason, message, since}
		w.show()
		s.save(uid)
		s.tell(uid, w)
	}
}

// whyWaits is why what the file of a workload says now is not what runs; "" if it is, if it runs soon, and if there
// is none.
func (s *Source) whyWaits(w *workload) (reason, message string) {
	err := s.files[w.path].err
	switch {
	case err == nil, w.nw.DeletionTimestamp != nil:
		return "", ""
	case errors.Is(err, errUnsettled):
		return w.waits.reason, w.waits.message
	case errors.Is(err, errOnTrial):
		return v1alpha1.ReasonFileOnTrial, fmt.Sprintf("%s has changed: %v", w.path, err)
	default:
		return v1alpha1.ReasonFileRefused, notAccepted(w.path, err)
	}
}

// tell says of a status that it has changed, unless its worker has published none yet: what an earlier process kept is
// not news. s.mu is held.
func (s *Source) tell(uid types.UID, w *workload) {
	if s.cfg.Published != nil && w.published != nil {
		s.cfg.Published(uid, &w.nw.Status)
	}
}

// show brings the object's status to what its worker has published and to what waits. s.mu is held.
func (w *workload) show() {
	st := w.published
	if st == nil {
		st = &w.nw.Status // what an earlier process kept
	}
	st = st.DeepCopy()
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionUpdateWaiting)
	if w.waits.reason != "" {
		status.UpdateWaits(st, w.waits.reason, w.waits.message, w.waits.since)
	}
	w.nw = w.nw.DeepCopy()
	w.nw.Status = *st
}
