// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func notices(from, to int) []notice {
	var list []notice
	for i := from; i < to; i++ {
		list = append(list, notice{Reason: "Killed", Message: fmt.Sprint(i)})
	}
	return list
}

func TestOutboxAdd(t *testing.T) {
	tests := map[string]struct {
		outbox outbox
		due    []notice
		want   outbox
	}{
		"in order":             {outbox{Notices: notices(0, 1)}, notices(1, 3), outbox{Notices: notices(0, 3)}},
		"a repetition":         {outbox{Notices: notices(0, 1)}, notices(0, 1), outbox{Notices: notices(0, 1)}},
		"the same after other": {outbox{Notices: notices(0, 2)}, notices(0, 1), outbox{Notices: append(notices(0, 2), notices(0, 1)...)}},
		"a long message": {
			outbox{}, []notice{{Reason: resizeErrorReason, Message: strings.Repeat("ä", maxNoticeMessage)}},
			outbox{Notices: []notice{{Reason: resizeErrorReason, Message: strings.Repeat("ä", maxNoticeMessage/2)}}},
		},
		"above the bound": {outbox{Notices: notices(0, maxNotices), Dropped: 4}, notices(maxNotices, maxNotices+3), outbox{Notices: notices(3, maxNotices+3), Dropped: 7}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.outbox.add(tt.due...)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What was sent leaves the outbox, whatever came or was dropped meanwhile.
func TestOutboxWithout(t *testing.T) {
	full := outbox{Notices: notices(0, maxNotices)}
	tests := map[string]struct {
		now, sent, want outbox
	}{
		"all":                        {outbox{Notices: notices(0, 3)}, outbox{Notices: notices(0, 3)}, outbox{}},
		"further ones came":          {outbox{Notices: notices(0, 5)}, outbox{Notices: notices(0, 3)}, outbox{Notices: notices(3, 5)}},
		"dropped ones are announced": {outbox{Notices: notices(4, 7), Dropped: 4}, outbox{Notices: notices(4, 7), Dropped: 4}, outbox{}},
		"sent ones were dropped":     {full.add(notices(100, 110)...), full, outbox{Notices: notices(100, 110)}},
		"unsent ones were dropped":   {full.add(notices(100, 160)...), outbox{Notices: full.Notices}, outbox{Notices: notices(110, 160), Dropped: 10}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.now.without(tt.sent)
			if diff := cmp.Diff(fmt.Sprint(tt.want), fmt.Sprint(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The first event that is sent says how many earlier ones were dropped.
func TestOutboxTexts(t *testing.T) {
	texts := outbox{Notices: notices(0, 2), Dropped: 7}.texts()
	const want = "0 (7 earlier events were dropped because the API server did not answer)"
	if texts[0].Message != want || texts[1].Message != "1" {
		t.Errorf("texts %+v", texts)
	}
}
