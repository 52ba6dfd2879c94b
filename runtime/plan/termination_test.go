// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What ends a workload, and who asked for it in the record.
func TestDecideTermination(t *testing.T) {
	status := func(phase corev1.PodPhase, reason string) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: phase, Reason: reason}
	}
	const deadline = "shim (activeDeadlineSeconds)"
	tests := map[string]struct {
		given       Existence
		want        bool
		trigger     v1alpha1.KillTrigger
		requestedBy string
	}{
		"nothing known":        {given: Existence{}},
		"it runs":              {given: Existence{Status: status(corev1.PodRunning, "")}},
		"it is to start":       {given: Existence{Status: status(corev1.PodPending, "")}},
		"it succeeded":         {Existence{Status: status(corev1.PodSucceeded, "")}, true, v1alpha1.TriggerTermination, "shim"},
		"it failed":            {Existence{Status: status(corev1.PodFailed, "")}, true, v1alpha1.TriggerTermination, "shim"},
		"its deadline":         {Existence{Status: status(corev1.PodFailed, ReasonDeadlineExceeded)}, true, v1alpha1.TriggerTermination, deadline},
		"deleted":              {Existence{Deleted: true, RequestedBy: "jane"}, true, v1alpha1.TriggerTermination, "jane"},
		"deleted, not by whom": {Existence{Deleted: true, Status: status(corev1.PodRunning, "")}, true, v1alpha1.TriggerTermination, "deletion of the NodeWorkload"},
		"deleted afterwards":   {Existence{Deleted: true, Status: status(corev1.PodFailed, ReasonDeadlineExceeded)}, true, v1alpha1.TriggerTermination, "deletion of the NodeWorkload"},
		"an orphan":            {Existence{Deleted: true, Orphan: true}, true, v1alpha1.TriggerOrphan, "shim"},
		"never deleted":        {Existence{Orphan: true}, true, v1alpha1.TriggerOrphan, "shim"},
		"a caller asked":       {Existence{Asked: &Termination{RequestedBy: "pressure"}}, true, v1alpha1.TriggerTermination, "pressure"},
		"with its trigger":     {Existence{Asked: &Termination{Trigger: "Shutdown"}, RequestedBy: "jane"}, true, "Shutdown", "shim"},
		"asked and deleted":    {Existence{Asked: &Termination{RequestedBy: "pressure"}, Deleted: true, RequestedBy: "jane"}, true, v1alpha1.TriggerTermination, "jane"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, terminate := DecideTermination(test.given)
			if terminate != test.want {
				t.Errorf("terminated: %t, want %t", terminate, test.want)
			}
			if terminate && (got.Trigger != test.trigger || got.RequestedBy != test.requestedBy) {
				t.Errorf("%s requested by %q, want %s by %q", got.Trigger, got.RequestedBy, test.trigger, test.requestedBy)
			}
		})
	}
}

// Of two callers the first says why, and the shorter grace period counts.
func TestTerminationJoined(t *testing.T) {
	seconds := func(s int64) *int64 { return &s }
	for name, tt := range map[string]struct{ first, later, want *int64 }{
		"none":            {nil, nil, nil},
		"only the first":  {seconds(5), nil, seconds(5)},
		"only the second": {nil, seconds(5), seconds(5)},
		"a shorter one":   {seconds(5), seconds(2), seconds(2)},
		"a longer one":    {seconds(2), seconds(5), seconds(2)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Termination{Reason: "first", Override: tt.first}.Joined(Termination{Reason: "later", Override: tt.later})
			if got.Reason != "first" || (got.Override == nil) != (tt.want == nil) || got.Override != nil && *got.Override != *tt.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}
