// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is the manager's name in the managedFields of what it writes.
const FieldManager = "managedworkload-manager"

// LastWriter is the field manager that wrote last at or below a path of an object, such
// as "spec", "template"; "" where managedFields do not tell. Of two that wrote in the
// same second it is the one that is not the manager. Writes of subresources do not count.
func LastWriter(entries []metav1.ManagedFieldsEntry, path ...string) string {
	if last := LastWrite(entries, path...); last != nil {
		return last.Manager
	}
	return ""
}

// LastWrite is the entry of what LastWriter wrote, with its time by the API server's clock;
// nil where managedFields do not tell.
func LastWrite(entries []metav1.ManagedFieldsEntry, path ...string) *metav1.ManagedFieldsEntry {
	var last *metav1.ManagedFieldsEntry
	for i := range entries {
		e := &entries[i]
		if e.Subresource != "" || e.Time == nil || e.FieldsV1 == nil || !owns(e.FieldsV1.GetRawBytes(), path) {
			continue
		}
		if last == nil || last.Time.Before(e.Time) || last.Time.Equal(e.Time) && last.Manager == FieldManager {
			last = e
		}
	}
	return last
}

// owns reports whether a set of fields has something at or below a path.
func owns(raw []byte, path []string) bool {
	for _, name := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return false
		}
		below, ok := fields["f:"+name]
		if !ok {
			return false
		}
		raw = below
	}
	return true
}
