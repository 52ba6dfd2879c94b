// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The roll-out changes no node while a KillRequest takes up the budget, nor before the index
// shows what that wrote. New nodes are served meanwhile.
func TestRollOutTakesTurns(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		image("app:9")(spec)
		spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(2))}}
	})
	if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n6"}}); err != nil {
		t.Fatal(err)
	}
	b.refresh()
	shares := b.fleet.Shares
	uid := b.workload().UID
	waits := func(what string, updated int) {
		t.Helper()
		result, _, err := b.reconcile()
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Second || b.images()["app:9"] != updated || b.images()[first] != 5 {
			t.Errorf("%s: looks again after %v, images %v, %v", what, result.RequeueAfter, b.images(), err)
		}
	}
	turn := shares.Turn(uid, time.Now())
	if !shares.Take(turn) {
		t.Fatal("no turn")
	}
	waits("another has the turn", 1)
	b.report()
	shares.Leave(turn, "999999999", time.Now())
	waits("its writes are not seen", 1)
	shares.Leave(turn, "999999999", time.Now().Add(-time.Minute)) // and never will be
	b.turn()
	if images := b.images(); images["app:9"] != 3 || images[first] != 3 {
		t.Errorf("its turn has come: images %v", images)
	}
}
