// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// backoffConfigVector is a line of backoff-config.
type backoffConfigVector struct {
	ID          string          `json:"id"`
	Gates       map[string]bool `json:"gates"`
	Configured  int32           `json:"maxContainerRestartPeriodSeconds"`
	BaseSeconds int64           `json:"baseSeconds"`
	MaxSeconds  int64           `json:"maxSeconds"`
}

// restartBackoff is what a workload's restartBackoff says where the kubelet has a
// setting and two gates: a maximum of its own, and the alpha gate's shorter waits.
func (v backoffConfigVector) restartBackoff() *v1alpha1.RestartBackoff {
	spec := &v1alpha1.RestartBackoff{}
	if v.Gates["ReduceDefaultCrashLoopBackOffDecay"] {
		spec.BaseSeconds, spec.MaxSeconds = ptr.To[int32](1), ptr.To[int32](60)
	}
	if v.Gates["KubeletCrashLoopBackOffMax"] {
		spec.MaxSeconds = ptr.To(v.Configured)
	}
	return spec
}

func TestConformanceBackoffConfig(t *testing.T) {
	t.Parallel()
	eachVector(t, "backoff-config.jsonl.gz", func(t *testing.T, _ []byte, v backoffConfigVector) {
		got := plan.NewBackoffPolicy(v.restartBackoff())
		want := plan.BackoffPolicy{
			Base:   time.Duration(v.BaseSeconds) * time.Second,
			Max:    time.Duration(v.MaxSeconds) * time.Second,
			Expire: plan.DefaultBackoffExpire,
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", v.ID, got, want)
		}
	})
}
