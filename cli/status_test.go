// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// statusOf is a status of five nodes.
func statusOf(generation int64, updated, available int32, reconciling, stalled metav1.ConditionStatus, reason string) v1alpha1.ManagedWorkloadStatus {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because", LastTransitionTime: metav1.Now()}
	}
	return v1alpha1.ManagedWorkloadStatus{
		ObservedGeneration: generation, DesiredNodes: 5, CurrentNodes: 5, UpdatedNodes: updated, AvailableNodes: available,
		Conditions: []metav1.Condition{condition(v1alpha1.ConditionReconciling, reconciling), condition(v1alpha1.ConditionStalled, stalled)},
	}
}

func TestComputeRollout(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	const waiting = `Waiting for managedworkload "web" rollout to finish: `
	strategy := func(s v1alpha1.UpdateStrategy) func(*v1alpha1.ManagedWorkload) {
		return func(mw *v1alpha1.ManagedWorkload) { mw.Spec.UpdateStrategy = &s }
	}
	rolling := func(partition int32, nodeSelector map[string]string) v1alpha1.UpdateStrategy {
		return v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: &partition, NodeSelector: nodeSelector}}
	}
	canary := map[string]string{"canary": "true"}
	tests := map[string]struct {
		status           v1alpha1.ManagedWorkloadStatus
		edit             func(*v1alpha1.ManagedWorkload)
		want             string
		complete, failed bool
	}{
		"not seen":     {status: statusOf(1, 5, 5, no, no, "AllNodesReady"), want: "Waiting for managedworkload spec update to be observed..."},
		"never seen":   {status: v1alpha1.ManagedWorkloadStatus{ObservedGeneration: -1}, want: "Waiting for managedworkload spec update to be observed..."},
		"no condition": {status: v1alpha1.ManagedWorkloadStatus{ObservedGeneration: 2}, want: waiting + "0 of 0 updated nodes are available..."},
		"updating":     {status: statusOf(2, 2, 4, yes, no, "Updating"), want: waiting + "2 out of 5 nodes have been updated..."},
		"not yet available": {
			status: statusOf(2, 5, 4, yes, no, "Updating"), want: waiting + "4 of 5 updated nodes are available...",
		},
		"complete": {status: statusOf(2, 5, 5, no, no, "AllNodesReady"), want: `managedworkload "web" successfully rolled out`, complete: true},
		"paused": {
			status: statusOf(2, 2, 5, yes, no, "Paused"), edit: func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Paused = true },
			want: waiting + "paused with 2 out of 5 nodes updated...",
		},
		"paused when it was complete": {
			status: statusOf(2, 5, 5, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Paused = true },
			want: `managedworkload "web" successfully rolled out`, complete: true,
		},
		"paused when it was complete but for those that the strategy keeps": {
			status: statusOf(2, 2, 5, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) {
				strategy(rolling(3, nil))(mw)
				mw.Spec.Paused = true
			},
			want: "partitioned roll out complete: 2 new nodes have been updated...", complete: true,
		},
		"held by something that the spec does not say": {
			status: statusOf(2, 2, 5, no, no, "AllNodesReady"), edit: strategy(v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{}}),
			want: "2 of 5 nodes updated", complete: true,
		},
		"partition": {
			status: statusOf(2, 2, 5, no, no, "AllNodesReady"), edit: strategy(rolling(3, nil)),
			want: "partitioned roll out complete: 2 new nodes have been updated...", complete: true,
		},
		"partition of all nodes": {
			status: statusOf(2, 0, 5, no, no, "AllNodesReady"), edit: strategy(rolling(7, nil)),
			want: "0 of 5 nodes updated: the partition keeps all 5 nodes", complete: true,
		},
		"partition of some, and the others are away": {
			status: statusOf(2, 0, 3, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) {
				strategy(rolling(3, nil))(mw)
				mw.Status.UnreachableNodes = 2
			},
			want: "0 of 5 nodes updated: the partition keeps 3 nodes (2 of 5 nodes without a responding shim)", complete: true,
		},
		"canary": {
			status: statusOf(2, 2, 5, no, no, "AllNodesReady"), edit: strategy(rolling(0, canary)),
			want: "2 of 5 nodes updated: the others do not match updateStrategy.rollingUpdate.nodeSelector", complete: true,
		},
		"canary without a node": {
			status: statusOf(2, 0, 5, no, no, "AllNodesReady"), edit: strategy(rolling(0, canary)),
			want: "0 of 5 nodes updated: no node matches updateStrategy.rollingUpdate.nodeSelector", complete: true,
		},
		"canary whose node is away": {
			status: statusOf(2, 0, 4, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) {
				strategy(rolling(0, canary))(mw)
				mw.Status.UnreachableNodes = 1
			},
			want: "0 of 5 nodes updated: no node with a responding shim matches updateStrategy.rollingUpdate.nodeSelector (1 of 5 nodes without a responding shim)", complete: true,
		},
		"canary and partition": {
			status: statusOf(2, 1, 5, no, no, "AllNodesReady"), edit: strategy(rolling(2, canary)),
			want: "1 of 5 nodes updated: nodeSelector and partition of updateStrategy.rollingUpdate keep the others", complete: true,
		},
		"canary and partition, and no node is updated": {
			status: statusOf(2, 0, 5, no, no, "AllNodesReady"), edit: strategy(rolling(2, canary)),
			want: "0 of 5 nodes updated: nodeSelector and partition of updateStrategy.rollingUpdate keep the others", complete: true,
		},
		"canary and partition of all nodes": {
			status: statusOf(2, 0, 5, no, no, "AllNodesReady"), edit: strategy(rolling(5, canary)),
			want: "0 of 5 nodes updated: the partition keeps all 5 nodes", complete: true,
		},
		"on delete": {
			status: statusOf(2, 2, 5, no, no, "AllNodesReady"), edit: strategy(v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}),
			want: "2 of 5 nodes updated: OnDelete updates a node when its NodeWorkload is deleted", complete: true,
		},
		"on delete, and none was": {
			status: statusOf(2, 0, 5, no, no, "AllNodesReady"), edit: strategy(v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}),
			want: "0 of 5 nodes updated: OnDelete updates a node when its NodeWorkload is deleted", complete: true,
		},
		"a node is away": {
			status: statusOf(2, 4, 4, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) { mw.Status.UnreachableNodes = 1 },
			want: `managedworkload "web" successfully rolled out (1 of 5 nodes without a responding shim)`, complete: true,
		},
		"a node is drained": {
			status: statusOf(2, 5, 5, no, no, "AllNodesReady"), edit: func(mw *v1alpha1.ManagedWorkload) { mw.Status.DrainedNodes = 1 },
			want: `managedworkload "web" successfully rolled out (1 beside them drained)`, complete: true,
		},
		"late": {
			status: statusOf(2, 2, 4, no, yes, "ProgressDeadlineExceeded"), want: `managedworkload "web" exceeded its progress deadline: because`, failed: true,
		},
		"refused": {status: statusOf(2, 0, 4, no, yes, "RefusedFields"), want: `managedworkload "web" is stalled (RefusedFields): because`, failed: true},
		"being deleted": {
			status: statusOf(2, 5, 5, yes, no, "Terminating"), edit: func(mw *v1alpha1.ManagedWorkload) { now := metav1.Now(); mw.DeletionTimestamp = &now },
			want: `managedworkload "web" is being deleted`, failed: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}, Status: tc.status}
			if tc.edit != nil {
				tc.edit(mw)
			}
			got := computeRollout(mw)
			if got.Message != tc.want || got.Complete != tc.complete || got.Failed != tc.failed {
				t.Errorf("%q, complete %t, failed %t; want %q", got.Message, got.Complete, got.Failed, tc.want)
			}
		})
	}
}

// status follows the object and ends with the roll-out.
func TestStatusWatches(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	set := func(s v1alpha1.ManagedWorkloadStatus) {
		mw.Status = s
		update(t, mw)
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	first := `Waiting for managedworkload "web" rollout to finish: 2 out of 5 nodes have been updated...` + "\n"
	set(statusOf(1, 2, 4, yes, no, "Updating"))
	run(t, ns, "", "rollout", "status", "web", "--watch=false").want(t, ExitNo, first, "")
	run(t, ns, "", "rollout", "status", "web", "--timeout=300ms").want(t, ExitNo, first, "error: timed out after 300ms: Waiting for managedworkload")
	run(t, ns, "", "rollout", "status", "nothing").want(t, ExitError, "", "not found")

	watched := make(chan result, 1)
	lines := make(chan string, 10)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		c := &cluster{api, ns}
		s, err := c.awaitRollout(ctx, "web", true, func(s *rolloutStatus) { lines <- s.Message })
		if err != nil {
			s.Message = err.Error()
		}
		watched <- result{out: s.Message}
	}()
	for i, next := range []v1alpha1.ManagedWorkloadStatus{statusOf(1, 5, 4, yes, no, "Updating"), statusOf(1, 5, 5, no, no, "AllNodesReady")} {
		if line := <-lines; !strings.HasPrefix(line, "Waiting") {
			t.Errorf("line %d is %q", i, line)
		}
		set(next)
	}
	if got, want := (<-watched).out, `managedworkload "web" successfully rolled out`; got != want {
		t.Errorf("it ended with %q, want %q", got, want)
	}
	r := run(t, ns, "", "rollout", "status", "web", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != ExitOK {
		t.Fatalf("%+v: %v", r, err)
	}
	want := map[string]any{
		"apiVersion": outputVersion, "kind": "RolloutStatus", "namespace": ns, "name": "web", "complete": true, "failed": false,
		"message": `managedworkload "web" successfully rolled out`, "desiredNodes": 5.0, "updatedNodes": 5.0, "availableNodes": 5.0, "unreachableNodes": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	set(statusOf(1, 2, 4, no, yes, "ProgressDeadlineExceeded"))
	run(t, ns, "", "rollout", "status", "web").want(t, ExitNo, "", `error: managedworkload "web" exceeded its progress deadline: because`)
}
