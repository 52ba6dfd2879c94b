// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func asItIs(*corev1.Pod) {}

// A Pod is resized as NodeWorkloads come and go, and again when another takes its place. The
// newest NodeWorkload is the one that has no reservation where there is no room. What its shim
// says stays.
func TestReserve(t *testing.T) {
	b := newBench(t, true)
	n1 := b.node("n1", "2")
	first := b.workload(n1, "first", "300m", "64Mi")
	pod := b.pod(n1, asItIs)
	b.asks(pod, "301m", "72Mi")
	b.answer(pod, "", "301m", "72Mi")
	b.says(first, "True Reserved")
	first.Status.Conditions = append([]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "PodReady", LastTransitionTime: metav1.Now()}}, first.Status.Conditions...)
	if err := api.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}

	time.Sleep(time.Second) // creation times have seconds
	second := b.workload(n1, "second", "500m", "64Mi")
	b.asks(pod, "801m", "136Mi")
	b.answer(pod, corev1.PodReasonDeferred, "301m", "72Mi")
	b.says(second, "False Deferred")
	if c := meta.FindStatusCondition(second.Status.Conditions, v1alpha1.ConditionReserved); !strings.Contains(c.Message, pod.Name) || !strings.Contains(c.Message, "Node didn't have enough resource") {
		t.Errorf("message %q", c.Message)
	}
	b.says(first, "True Reserved")

	if err := api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	pod = b.pod(n1, asItIs)
	b.asks(pod, "801m", "136Mi")
	b.answer(pod, "", "801m", "136Mi")
	b.says(second, "True Reserved")
	if pod.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("QoS class %s", pod.Status.QOSClass)
	}
	if err := api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b.asks(pod, "501m", "72Mi")

	second.Status.Phase = corev1.PodSucceeded
	if err := api.Status().Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	b.asks(pod, "1m", "8Mi")
	b.says(second, "")
}

// A NodeWorkload that no node has room for is not asked for, and says so.
func TestMoreThanTheNodeHas(t *testing.T) {
	b := newBench(t, true)
	n1 := b.node("n1", "2")
	large, small := b.workload(n1, "a-large", "1k", "64Mi"), b.workload(n1, "small", "300m", "64Mi")
	pod := b.pod(n1, asItIs)
	b.asks(pod, "301m", "72Mi")
	b.says(large, "False ExceedsNode")
	b.answer(pod, "", "301m", "72Mi")
	b.says(small, "True Reserved")
}

// A Pod whose QoS class a resize would change is left as it is: the API server refuses that.
func TestRefused(t *testing.T) {
	b := newBench(t, true)
	n1 := b.node("n1", "2")
	nw := b.workload(n1, "w", "300m", "64Mi")
	b.pod(n1, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("8Mi")}
	})
	b.says(nw, "False ResizeRefused")
}

// Nodes without such a Pod say so where others have one, nothing where none has; and a manager
// that does not reserve takes back what was said.
func TestNoReservingPod(t *testing.T) {
	b := newBench(t, true)
	n1, n2 := b.node("n1", "2"), b.node("n2", "2")
	without, with := b.workload(n1, "without", "300m", "64Mi"), b.workload(n2, "with", "300m", "64Mi")
	pod := b.pod(n2, asItIs)
	b.says(without, "False NoReservingPod")
	b.asks(pod, "301m", "72Mi")
	b.answer(pod, "", "301m", "72Mi")
	b.says(with, "True Reserved")
	if err := api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.says(with, "")
	b.says(without, "")
}

func TestOff(t *testing.T) {
	b := newBench(t, false)
	nw := b.workload(b.node("n1", "2"), "w", "300m", "64Mi")
	nw.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "PodReady", LastTransitionTime: metav1.Now()},
		{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionTrue, Reason: "Reserved", LastTransitionTime: metav1.Now()},
	}
	if err := api.Status().Update(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	b.says(nw, "")
	if len(nw.Status.Conditions) != 1 {
		t.Errorf("conditions %+v", nw.Status.Conditions)
	}
}
