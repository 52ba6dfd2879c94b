// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"encoding/json"
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/faults/inject"
)

// A restored etcd has the records of its copy: what was seen to end has ended.
func TestRecordsOfARestoredEtcd(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	for _, phase := range []v1alpha1.KillPhase{v1alpha1.KillPhasePreStop, v1alpha1.KillPhaseDone, v1alpha1.KillPhasePreStop} {
		nw := v1alpha1.NodeWorkload{Status: v1alpha1.NodeWorkloadStatus{Kills: []v1alpha1.KillRecord{{ID: "1", Phase: phase}}}}
		value, err := json.Marshal(nw)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.take(inject.Change{Key: "w", Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	h := &history.History{}
	o.fill(h)
	if len(h.Records) != 1 || h.Records[0].Phase != v1alpha1.KillPhaseDone {
		t.Errorf("records %+v", h.Records)
	}
}
