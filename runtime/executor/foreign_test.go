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
// says the label.
func TestResumeLeavesAnotherWorkloadsContainer(t *testing.T) {
	for name, uid := range map[string]string{"another workload's": "uid-2", "nobody's": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("victim", nil).PodUID = uid
				e := newFakeExecutor(f)
				rec := stopping(cutRecord(time.Second, v1alpha1.KillPhaseStopping, 30), 0, 30)
				rec.ContainerID = "victim-id"
				if err := e.Resume(t.Context(), testPod(30, nil), []plan.KillProgress{{Record: rec}}); err != nil {
					t.Fatal(err)
				}
				if calls := f.stopCalls(); len(calls) > 0 {
					t.Errorf("stopped %+v", calls)
				}
				closed := f.lastRecords()[0]
				if closed.Phase != v1alpha1.KillPhaseDone || closed.Error != "container victim-id is not one of this workload" {
					t.Errorf("record %+v", closed)
				}
			})
		})
	}
}
