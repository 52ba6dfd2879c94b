// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestStripNodeKeepsWhatPlacementReads(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"big": "x"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{managertest.Taint("a", corev1.TaintEffectNoExecute)}},
		Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}},
	}
	want := node.DeepCopy()
	want.Annotations, want.Status = nil, corev1.NodeStatus{}
	got, err := stripNode(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// What anybody may write into a KillRequest is not remembered as far as nothing bounds it.
func TestStripKillRequest(t *testing.T) {
	kr := &v1alpha1.KillRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "restart", Namespace: "a", UID: "1", Generation: 2, Finalizers: []string{"f"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"big": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec:   v1alpha1.KillRequestSpec{Reason: "r"},
		Status: v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestHeld},
	}
	want := kr.DeepCopy()
	want.Labels, want.Annotations, want.ManagedFields, want.Finalizers, want.OwnerReferences = nil, nil, nil, nil, nil
	got, err := stripKillRequest(kr)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("KillRequest (-want +got):\n%s", diff)
	}
}

// Events of one reason, however many, use up none of another reason, nor those of another object.
func TestEventsAreBoundedByReason(t *testing.T) {
	bounds := eventBounds()
	bounds.Clock = clocktesting.NewFakeClock(managertest.Epoch)
	correlator := record.NewEventCorrelatorWithOptions(bounds)
	sent := func(object, reason string, times int) (n int) {
		for i := range times {
			kind := []string{corev1.EventTypeNormal, corev1.EventTypeWarning}[i%2]
			result, err := correlator.EventCorrelate(&corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "ManagedWorkload", Name: object}, Type: kind, Reason: reason, Message: strconv.Itoa(i),
			})
			if err != nil {
				t.Fatal(err)
			}
			if !result.Skip {
				n++
			}
		}
		return n
	}
	if n := sent("web", "Killed", 300); n != 100 {
		t.Errorf("%d of 300 events are sent, want 100", n)
	}
	if n := sent("web", "FailedCreate", 1) + sent("other", "Killed", 1); n != 2 {
		t.Errorf("%d of an event of another reason and one of another object are sent", n)
	}
}

// A namespace with thousands of objects keeps those of another waiting for one look of each worker
// at most, in the queue that all controllers of the manager get.
func TestControllersAreFairBetweenNamespaces(t *testing.T) {
	o := controllerOptions(Options{Load: DefaultLoad})
	ask := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request], namespace, name string) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	if o.NewQueue == nil {
		t.Fatal("the queue is controller-runtime's, which knows no namespaces")
	}
	queue := o.NewQueue("test", o.RateLimiter)
	defer queue.ShutDown()
	for i := range 3000 {
		ask(queue, "huge", strconv.Itoa(i))
	}
	ask(queue, "small", "web")
	for range 2 {
		if item, _ := queue.Get(); item.Namespace == "small" {
			return
		}
	}
	t.Error("an object waits for more than one of a namespace with 3,000")
}
