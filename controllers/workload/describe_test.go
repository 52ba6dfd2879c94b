// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// Ready names every node that is not where it should be, and why, whatever else there is to say.
func TestReadyMessage(t *testing.T) {
	waits := func(why rollout.Reason) func(*viewed) {
		return func(v *viewed) {
			outdated(v)
			v.waits = why
		}
	}
	running := corev1.PodRunning
	stuck := on("n2", running, true, outdated)
	stuck.share.Complaint = "ImagePullBackOff; no such image"
	failing := on("n3", running, true, outdated)
	failing.refused = "etcdserver: request is too large"
	taken := nodeView{name: "n1", shim: alive, conflict: "NodeWorkload web-n1 is another's"}
	held := waits(rollout.WaitNodeSelector)
	tests := map[string]struct {
		facts facts
		want  string
	}{
		"a name that is taken, and a roll-out": {
			facts{desired: []nodeView{taken, stuck, on("n3", running, true, waits(rollout.WaitBudget))}},
			"NodeWorkload web-n1 is another's; 0 of 3 reachable nodes run the current template; updating n2 (ImagePullBackOff; no such image); 1 node waits (MaxUnavailable): n3",
		},
		"a canary that is stuck": {
			facts{desired: []nodeView{on("n1", running, true, held), stuck, on("n3", running, true, held)}},
			"0 of 3 reachable nodes run the current template; updating n2 (ImagePullBackOff; no such image); 2 nodes wait (NodeSelector): n1, n3",
		},
		"a canary of no node": {
			facts{desired: []nodeView{on("n1", running, true, held), on("n2", running, true, held)}},
			"2 nodes ready, 0 of them with the current template; no node matches updateStrategy.rollingUpdate.nodeSelector; 2 nodes wait (NodeSelector): n1, n2",
		},
		"a partition of all nodes": {
			facts{desired: []nodeView{on("n1", running, true, waits(rollout.WaitPartition))}},
			"1 node ready, 0 of them with the current template; updateStrategy.rollingUpdate.partition keeps every node; 1 node waits (Partition): n1",
		},
		"a change that the API server refuses": {
			facts{desired: []nodeView{on("n1", running, true), stuck, failing}},
			"1 of 3 reachable nodes run the current template; the change of 1 node failed: n3: etcdserver: request is too large; updating n2 (ImagePullBackOff; no such image)",
		},
		"admission that does not answer": {
			facts{verdict: admission.Verdict{Undecided: true, Reason: reasonAdmissionPending, Message: "no route"}, desired: []nodeView{on("n1", running, true)}},
			"no route; what runs stays, and no node is changed before that is known",
		},
		"a template that is refused": {
			facts{verdict: admission.Verdict{Reason: v1alpha1.ReasonRefusedFields}, desired: []nodeView{on("n1", running, true, outdated), on("n2", running, false)}},
			"Rejected; what runs stays: 1 of 2 nodes are ready with it",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.generation, f.hash, f.now, f.deadline = 5, currentHash, managertest.Epoch, time.Minute
			if f.verdict.Reason == "" {
				f.verdict = accepted
			}
			status, _, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{})
			if got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady).Message; got != tc.want {
				t.Errorf("message\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
