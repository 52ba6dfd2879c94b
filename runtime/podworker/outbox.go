// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/managedworkload/managedworkload/runtime/text"
)

// maxNotices bounds the events that wait for the API server, for each workload.
// It is below the burst of events that the API client lets pass for one object.
const maxNotices = 50

// maxNoticeMessage bounds the message of one, in bytes: it may hold the resources of all
// containers, or an error of the runtime, and waits in the checkpoint.
const maxNoticeMessage = 10 << 10

// notice is an event that is due once the status is in the API that it is about.
type notice struct {
	// FieldPath names the container, as in spec.containers{c}; empty for the
	// whole workload.
	FieldPath string `json:"fieldPath,omitempty"`
	// Type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Annotations are those of the event, for programs.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// same reports whether two notices say the same.
func (n notice) same(o notice) bool {
	return n.FieldPath == o.FieldPath && n.Type == o.Type && n.Reason == o.Reason && n.Message == o.Message && maps.Equal(n.Annotations, o.Annotations)
}

// outbox holds the notices that were not sent yet, the oldest first.
type outbox struct {
	Notices []notice `json:"notices,omitempty"`
	// Dropped counts the older ones that there was no room for.
	Dropped int64 `json:"dropped,omitempty"`
}

// add returns the outbox with further notices, their messages cut. A repetition of the
// latest notice is left out, and above the bound the oldest are dropped.
func (o outbox) add(due ...notice) outbox {
	notices := slices.Clone(o.Notices)
	for _, n := range due {
		n.Message = text.Cut(n.Message, maxNoticeMessage)
		if len(notices) == 0 || !notices[len(notices)-1].same(n) {
			notices = append(notices, n)
		}
	}
	if over := len(notices) - maxNotices; over > 0 {
		notices = notices[over:]
		o.Dropped += int64(over)
	}
	return outbox{Notices: notices, Dropped: o.Dropped}
}

// texts returns the notices to send; the first says how many were dropped.
func (o outbox) texts() []notice {
	notices := slices.Clone(o.Notices)
	if o.Dropped > 0 && len(notices) > 0 {
		notices[0].Message += fmt.Sprintf(" (%d earlier events were dropped because the API server did not answer)", o.Dropped)
	}
	return notices
}

// without returns what is left when an earlier state of the outbox was sent.
func (o outbox) without(sent outbox) outbox {
	dropped := o.Dropped - sent.Dropped
	left := max(0, len(sent.Notices)-int(dropped))
	return outbox{Notices: slices.Clone(o.Notices[min(left, len(o.Notices)):]), Dropped: max(0, dropped-int64(len(sent.Notices)))}
}

func (o outbox) empty() bool { return len(o.Notices) == 0 }
