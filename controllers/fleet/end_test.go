// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestShrunkGrace(t *testing.T) {
	tests := map[string]struct {
		template, current, wanted *int64
		want                      *int64
	}{
		"nothing wanted":                 {template: ptr.To[int64](30)},
		"nothing wanted, set before":     {template: ptr.To[int64](30), current: ptr.To[int64](4), want: ptr.To[int64](4)},
		"shorter than the template's":    {template: ptr.To[int64](30), wanted: ptr.To[int64](5), want: ptr.To[int64](5)},
		"zero":                           {template: ptr.To[int64](30), wanted: ptr.To[int64](0), want: ptr.To[int64](0)},
		"longer than the template's":     {template: ptr.To[int64](30), wanted: ptr.To[int64](60), want: ptr.To[int64](30)},
		"longer than it is":              {template: ptr.To[int64](30), current: ptr.To[int64](4), wanted: ptr.To[int64](10), want: ptr.To[int64](4)},
		"shorter than it is":             {template: ptr.To[int64](30), current: ptr.To[int64](10), wanted: ptr.To[int64](4), want: ptr.To[int64](4)},
		"a template without any default": {wanted: ptr.To[int64](4), want: ptr.To[int64](4)},
		"longer than the default":        {wanted: ptr.To[int64](60), want: ptr.To[int64](30)},
		"a template that makes no sense": {template: ptr.To[int64](-5), wanted: ptr.To[int64](4), want: ptr.To[int64](0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			share := &Share{Demands: &Demands{Grace: tc.template}, DeletionGrace: tc.current}
			if diff := cmp.Diff(tc.want, shrunkGrace(share, tc.wanted)); diff != "" {
				t.Errorf("grace (-want +got):\n%s", diff)
			}
		})
	}
}
