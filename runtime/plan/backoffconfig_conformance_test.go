// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// restartBackoff is what a workload's restartBackoff says where the kubelet has a
// setting and two gates: a maximum of its own, and the alpha gate's shorter waits.
func restartBackoff(v *recordings.BackoffConfig) *v1alpha1.RestartBackoff {
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
	recordings.Each(t, "backoff-config", func(t *testing.T, _ []byte, v *recordings.BackoffConfig) {
		got := plan.NewBackoffPolicy(restartBackoff(v))
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
