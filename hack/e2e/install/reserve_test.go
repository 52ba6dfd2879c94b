// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// reserve fills more than half of the node twice. Where a workload is first, a Pod stays Pending until it
// goes, also once the Pod that reserves was replaced. Where the Pod is first, the workload runs without a reservation, and the Pod is not
// killed for it: it gets one when the Pod goes.
func reserve(t *testing.T, _ *harness.Workload) {
	node := &corev1.Node{}
	if err := env.Kube.Get(t.Context(), client.ObjectKey{Name: nodeName}, node); err != nil {
		t.Fatal(err)
	}
	most := resource.NewMilliQuantity(node.Status.Allocatable.Cpu().MilliValue()*6/10, resource.DecimalSI)
	w := env.New(t)
	template := fmt.Sprintf("terminationGracePeriodSeconds: 1\ncontainers: [{name: c, image: %s, resources: {requests: {cpu: %s}}}]", testImage, most)
	w.Apply(template)
	awaitReserved(w, metav1.ConditionTrue, v1alpha1.ReasonReserved)
	replaceReserving(t, w, most)
	filler := newFiller(w.Namespace, most)
	if err := env.Kube.Create(t.Context(), filler); err != nil {
		t.Fatal(err)
	}
	awaitFiller(t, filler, "it does not fit", func(pod *corev1.Pod) bool {
		i := conditionOf(pod, corev1.PodScheduled)
		return pod.Spec.NodeName == "" && i != nil && i.Reason == corev1.PodReasonUnschedulable
	})
	exceedNode(t, node, w, filler)
	w.Delete()
	w.AwaitGone()
	runs := awaitFiller(t, filler, "it runs where the workload was", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })

	w.Apply(template)
	w.AwaitReady()
	awaitReserved(w, metav1.ConditionFalse, v1alpha1.ReasonDeferred)
	now := awaitFiller(t, filler, "it runs on", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if now.UID != runs.UID || now.DeletionTimestamp != nil || now.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the Pod that was there first: %+v", now.Status)
	}
	if err := env.Kube.Delete(t.Context(), filler, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	awaitReserved(w, metav1.ConditionTrue, v1alpha1.ReasonReserved)
	if class := pod(t, "reserved").Status.QOSClass; class != corev1.PodQOSBurstable {
		t.Errorf("the Pod that reserves is %s", class)
	}
	w.Delete()
	w.AwaitGone()
}

// replaceReserving deletes the Pod that reserves. The next one gets what a workload requests.
func replaceReserving(t *testing.T, w *harness.Workload, most *resource.Quantity) {
	t.Helper()
	before := pod(t, "reserved")
	if err := env.Kube.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, "reserved", "the next one has what the workload requests", func(pod *corev1.Pod) bool {
		granted := pod.Status.ContainerStatuses[0].AllocatedResources
		return pod.UID != before.UID && granted.Cpu().Cmp(*most) > 0
	})
	awaitReserved(w, metav1.ConditionTrue, v1alpha1.ReasonReserved)
}

// exceedNode runs a workload that requests more than the node has. It has no reservation, and the
// reservation of the workload beside it and the Pod that waits stay as they are.
func exceedNode(t *testing.T, node *corev1.Node, beside *harness.Workload, filler *corev1.Pod) {
	t.Helper()
	reserving := pod(t, "reserved")
	w := env.New(t)
	w.Apply(fmt.Sprintf("terminationGracePeriodSeconds: 0\ncontainers: [{name: c, image: %s, resources: {requests: {cpu: %d}}}]",
		testImage, 2*node.Status.Allocatable.Cpu().Value()))
	awaitReserved(w, metav1.ConditionFalse, v1alpha1.ReasonExceedsNode)
	awaitReserved(beside, metav1.ConditionTrue, v1alpha1.ReasonReserved)
	after := pod(t, "reserved")
	if before := reserving.Spec.Containers[0].Resources.Requests.Cpu(); after.UID != reserving.UID || after.Spec.Containers[0].Resources.Requests.Cpu().Cmp(*before) != 0 {
		t.Errorf("the Pod that reserves: %v, want %v as before", after.Spec.Containers[0].Resources.Requests, before)
	}
	if err := env.Kube.Get(t.Context(), client.ObjectKeyFromObject(filler), filler); err != nil || filler.Spec.NodeName != "" {
		t.Errorf("the Pod that waits is on node %q: %v", filler.Spec.NodeName, err)
	}
	w.Delete()
	w.AwaitGone()
}

func awaitReserved(w *harness.Workload, status metav1.ConditionStatus, reason string) {
	w.Await(fmt.Sprintf("Reserved is %s, %s", status, reason), func(nw *v1alpha1.NodeWorkload) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionReserved)
		return c != nil && c.Status == status && c.Reason == reason
	})
}

// newFiller is a Pod that waits and requests so much CPU.
func newFiller(namespace string, cpu *resource.Quantity) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "filler"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "c", Image: image + ":v1", Args: []string{"pause"}, ImagePullPolicy: corev1.PullNever,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *cpu}},
			}},
		},
	}
}

// awaitFiller waits until the Pod is as wanted, and returns it.
func awaitFiller(t *testing.T, filler *corev1.Pod, what string, done func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	watch, err := env.Kube.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(filler.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", filler.Name)})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	last, late := filler, time.After(harness.Timeout)
	for {
		select {
		case event := <-watch.ResultChan():
			if pod, ok := event.Object.(*corev1.Pod); ok {
				if last = pod; done(pod) {
					return pod
				}
			}
		case <-late:
			t.Fatalf("%s: not within %s: %+v", what, harness.Timeout, last.Status)
		}
	}
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
