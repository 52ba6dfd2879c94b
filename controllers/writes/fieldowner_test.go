// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLastWriter(t *testing.T) {
	entry := func(manager string, second int, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
			Time: &metav1.Time{Time: time.Unix(int64(second), 0)},
		}
	}
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}}}}`
	const label = `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	tests := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		path    []string
		want    string
	}{
		"nothing known":       {path: []string{"spec"}},
		"the latest":          {[]metav1.ManagedFieldsEntry{entry("a", 1, "", image), entry("b", 3, "", image), entry("c", 2, "", image)}, []string{"spec", "template"}, "b"},
		"of another field":    {[]metav1.ManagedFieldsEntry{entry("a", 1, "", image), entry("b", 3, "", label)}, []string{"spec", "template"}, "a"},
		"a label":             {[]metav1.ManagedFieldsEntry{entry("a", 3, "", image), entry("b", 1, "", label)}, []string{"metadata", "labels", "a"}, "b"},
		"a status":            {[]metav1.ManagedFieldsEntry{entry("a", 1, "", image), entry("b", 3, "status", image)}, []string{"spec"}, "a"},
		"in the same second":  {[]metav1.ManagedFieldsEntry{entry("a", 1, "", image), entry(FieldManager, 1, "", image)}, []string{"spec"}, "a"},
		"in the same, before": {[]metav1.ManagedFieldsEntry{entry(FieldManager, 1, "", image), entry("a", 1, "", image)}, []string{"spec"}, "a"},
		"unreadable":          {[]metav1.ManagedFieldsEntry{entry("a", 1, "", `[]`)}, []string{"spec"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := LastWriter(tc.entries, tc.path...); got != tc.want {
				t.Errorf("LastWriter = %q, want %q", got, tc.want)
			}
		})
	}
}
