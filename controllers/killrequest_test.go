// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"math"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Beside a real API server: the status names the NodeWorkload that gets a request, which is
// taken from it when it is over. A deadline of ages is refused.
func TestKillRequestIsHandedOut(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	kr := &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "k"},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: mw.Name, Nodes: v1alpha1.RequestNodes{Names: []string{n1}}, Action: v1alpha1.RequestRestart,
			Order: v1alpha1.RequestRollOut, ActiveDeadlineSeconds: new(int64(math.MaxInt64)),
		},
	}
	if err := api.Create(t.Context(), kr.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Errorf("a deadline that no time has: %v", err)
	}
	kr.Spec.ActiveDeadlineSeconds = nil
	c.must(api.Create(t.Context(), kr))
	nw := await(c, c.nodeWorkload(n1), "asked", func(nw *v1alpha1.NodeWorkload) bool { return len(nw.Spec.Requests) == 1 })
	await(c, kr, "named", func(kr *v1alpha1.KillRequest) bool {
		return len(kr.Status.NodeStates) == 1 && kr.Status.NodeStates[0].NodeWorkloadUID == nw.UID
	})
	updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) {
		nw.Status.Requests = []v1alpha1.NodeRequestStatus{{ID: string(kr.UID), Name: kr.Name, Phase: v1alpha1.RequestSucceeded}}
	})
	await(c, kr, "over", func(kr *v1alpha1.KillRequest) bool { return kr.Status.Phase == v1alpha1.RequestSucceeded })
	await(c, nw, "released", func(nw *v1alpha1.NodeWorkload) bool { return len(nw.Spec.Requests) == 0 })
}
