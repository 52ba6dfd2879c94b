// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package managertest

import (
	"errors"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/api/placement"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// Epoch is when the kills of tests begin.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Kill makes a record that began second seconds after the epoch.
func Kill(id string, second int, phase v1alpha1.KillPhase, outcome v1alpha1.KillOutcome) v1alpha1.KillRecord {
	start := Epoch.Add(time.Duration(second) * time.Second)
	r := v1alpha1.KillRecord{
		ID: id, Container: "app", Trigger: v1alpha1.TriggerTermination, Phase: phase, Outcome: outcome,
		Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod}, StartTime: metav1.NewMicroTime(start),
	}
	if phase == v1alpha1.KillPhaseDone {
		r.FinishTime = &metav1.MicroTime{Time: start.Add(time.Second)}
	}
	return r
}

// NodeWorkload is that of workload web on a node; owner is empty where nothing controls it.
func NodeWorkload(node string, owner types.UID, records ...v1alpha1.KillRecord) *v1alpha1.NodeWorkload {
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: owner}}
	nw := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: placement.NodeWorkloadName("web", node), UID: types.UID("uid-" + node)},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: node},
		Status:     v1alpha1.NodeWorkloadStatus{Kills: records},
	}
	if owner != "" {
		nw.OwnerReferences = []metav1.OwnerReference{writes.OwnerReference(mw)}
	}
	return nw
}

// Lease is that of the shim of node n1, for 40 s.
func Lease(at time.Time) *coordinationv1.Lease { return LeaseOf("n1", at) }

// LeaseOf is the Lease of a node's shim that was renewed at a time.
func LeaseOf(node string, at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: v1alpha1.LeaseNamePrefix + node},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &metav1.MicroTime{Time: at}},
	}
}

// Taint is a taint of a Node.
func Taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: "yes", Effect: effect}
}

// Scheme has the types that the manager reads and writes.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}
