// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestRunAdd(t *testing.T) {
	const s, f = plan.ProbeSuccess, plan.ProbeFailure
	tests := map[string]struct {
		success, failure int32
		results          []plan.ProbeResult
		want             []bool
	}{
		"every result counts with thresholds of 1": {1, 1, []plan.ProbeResult{s, f, s}, []bool{true, true, true}},
		"third failure in a row":                   {1, 3, []plan.ProbeResult{f, f, f, f}, []bool{false, false, true, true}},
		"a success starts the count again":         {1, 3, []plan.ProbeResult{f, f, s, f, f, f}, []bool{false, false, true, false, false, true}},
		"second success in a row":                  {2, 1, []plan.ProbeResult{s, f, s, s}, []bool{false, true, false, true}},
		"thresholds that are not set":              {0, 0, []plan.ProbeResult{f, s}, []bool{true, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r run
			var got []bool
			for _, result := range tt.results {
				got = append(got, r.add(result, &corev1.Probe{SuccessThreshold: tt.success, FailureThreshold: tt.failure}))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKindEnds(t *testing.T) {
	tests := map[string]struct {
		kind   kind
		result plan.ProbeResult
		want   bool
	}{
		"failed liveness":     {liveness, plan.ProbeFailure, true},
		"succeeded liveness":  {liveness, plan.ProbeSuccess, false},
		"failed readiness":    {readiness, plan.ProbeFailure, false},
		"failed startup":      {startup, plan.ProbeFailure, true},
		"succeeded startup":   {startup, plan.ProbeSuccess, true},
		"succeeded readiness": {readiness, plan.ProbeSuccess, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.kind.ends(tt.result); got != tt.want {
				t.Errorf("ends(%q) = %v, want %v", tt.result, got, tt.want)
			}
		})
	}
}
