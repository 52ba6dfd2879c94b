// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// One reconciliation repairs as many NodeWorkloads as a batch changes, and asks for another.
func TestRepairsAreBounded(t *testing.T) {
	objects := []client.Object{workloadInMemory()}
	for i := range 300 {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
	}
	b := newBench(t, interceptor.Funcs{}, objects...)
	b.turn()
	b.turn()
	mw := b.workload()
	mw.Labels = map[string]string{"team": "a"}
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{250, 300} {
		res, _, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		list := &v1alpha1.NodeWorkloadList{}
		if err := b.client.List(t.Context(), list, client.MatchingLabels{"team": "a"}); err != nil {
			t.Fatal(err)
		}
		if again := res.RequeueAfter == nextBatch; len(list.Items) != want || again != (want < 300) {
			t.Errorf("%d are repaired, want %d; the next look is after %s", len(list.Items), want, res.RequeueAfter)
		}
	}
}

// What a shim reported about an earlier generation says nothing of the current one.
func TestReportOfAnOldGeneration(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
		t.Fatal(err)
	}
	nw.Generation++
	if err := b.client.Update(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	b.refresh()
	s, err := b.gather(t.Context(), b.workload(), b.memories.of(b.workload()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.reconcileVerdict(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.planRollOut(s).in.Nodes {
		if want := n.Name != "n1"; n.Reported != want {
			t.Errorf("%s: reported %v, want %v", n.Name, n.Reported, want)
		}
	}
}
