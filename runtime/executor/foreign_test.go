// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A record can come from a status that people may write. Whose container its ID is
// says the label: another's is neither stopped nor reported.
func TestResumeLeavesAnotherWorkloadsContainer(t *testing.T) {
	type owner struct {
		uid   string
		state plan.ContainerState
	}
	for name, victim := range map[string]owner{
		"another workload's": {"uid-2", plan.ContainerRunning}, "no workload's": {"", plan.ContainerRunning},
		"another workload's that exited": {"uid-2", plan.ContainerExited},
	} {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					c := f.running("victim", nil)
					c.PodUID, c.State, c.Reason = victim.uid, victim.state, "Secret"
					rec := stopping(cutRecord(time.Second, v1alpha1.KillPhaseStopping, 30), 0, 30)
					rec.ContainerID = "victim-id"
					if err := resumeBy(t, newFakeExecutor(f), &plan.PodStatus{}, testPod(30, nil), rec, whole); err != nil {
						t.Fatal(err)
					}
					if calls := f.stopCalls(); len(calls) > 0 {
						t.Errorf("stopped %+v", calls)
					}
					closed := f.lastRecords()[0]
					if closed.Phase != v1alpha1.KillPhaseDone || closed.Error != "container victim-id is not one of this workload" || closed.Reason != "" {
						t.Errorf("record %+v", closed)
					}
				})
			}
		})
	}
}
