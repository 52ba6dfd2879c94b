// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// benchNodes is how many nodes the workload of the benchmarks has.
const benchNodes = 5000

// idleFleet is a reconciler of a workload that is ready on many nodes: there is nothing to
// do. Nothing but the ManagedWorkload is in the API server.
func idleFleet(b *testing.B, strategy func(*v1alpha1.ManagedWorkloadSpec)) (*Reconciler, []*v1alpha1.NodeWorkload) {
	b.Helper()
	mw := workloadInMemory()
	strategy(&mw.Spec)
	c := fake.NewClientBuilder().WithScheme(managertest.Scheme(b)).WithStatusSubresource(&v1alpha1.ManagedWorkload{}).
		WithObjects(mw, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}).Build()
	shims := fleet.NewShims("system")
	kills := fleet.NewLedger(shims)
	known := Fleet{Shares: fleet.NewIndex(kills, shims), Nodes: fleet.NewNodes(), Shims: shims, Kills: kills}
	r := NewReconciler(c, c, &record.FakeRecorder{}, known, admission.NewJudge(c, admission.Options{NoTokens: true}), 10*time.Second)
	list := &v1alpha1.NodeWorkloadList{}
	for i := range benchNodes {
		name := fmt.Sprintf("node-%04d", i)
		known.Nodes.Observe(name, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		}}})
		lease := managertest.Lease(time.Now().Add(time.Hour))
		lease.Name = v1alpha1.LeaseNamePrefix + name
		lease.Spec.LeaseDurationSeconds = new(int32(36000))
		known.Shims.Observe(lease, time.Now())
		list.Items = append(list.Items, *readyNodeWorkload(mw, name))
	}
	known.Shares.Reset(list)
	for range 3 { // the verdict, the revision, the status
		if _, err := r.Reconcile(b.Context(), request("default", "web")); err != nil {
			b.Fatal(err)
		}
	}
	items := make([]*v1alpha1.NodeWorkload, len(list.Items))
	for i := range list.Items {
		items[i] = &list.Items[i]
	}
	return r, items
}

// readyNodeWorkload is that of a node as its shim reports it.
func readyNodeWorkload(mw *v1alpha1.ManagedWorkload, node string) *v1alpha1.NodeWorkload {
	t := *mw.Spec.Template.DeepCopy()
	template.SetDefaults(&t)
	hash := template.Hash(&t)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: placement.NodeWorkloadName(mw.Name, node), UID: types.UID("uid-" + node), ResourceVersion: "10", Generation: 1,
			Labels:     wantedOf(mw, nil).labels(node, hash),
			Finalizers: []string{v1alpha1.Finalizer}, OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(mw)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{NodeName: node, Template: t},
		Status: v1alpha1.NodeWorkloadStatus{
			ObservedGeneration: 1, TemplateHash: hash, Phase: corev1.PodRunning, Summary: "Running", Ready: "1/1",
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: now},
				{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLeaseRenewed, Message: "the shim renews its lease"},
			},
		},
	}
}

func byDefault(*v1alpha1.ManagedWorkloadSpec) {}

// BenchmarkIdle is a reconciliation with nothing to do of a workload on 5,000 nodes.
// Goal: 20 ms of CPU (cpu-ms/op, with garbage collection), which other programs prolong less
// than the time.
func BenchmarkIdle(b *testing.B) {
	for name, strategy := range map[string]func(*v1alpha1.ManagedWorkloadSpec){
		"default": byDefault,
		"partition": func(spec *v1alpha1.ManagedWorkloadSpec) {
			spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: new(int32(benchNodes / 2))}}
		},
		"paused": func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Paused = true },
	} {
		b.Run(name, func(b *testing.B) {
			r, _ := idleFleet(b, strategy)
			before, err := usage.CPUTime(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Reconcile(b.Context(), request("default", "web")); err != nil {
					b.Fatal(err)
				}
			}
			after, err := usage.CPUTime(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((after-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkStatusChange is what one of 5,000 NodeWorkloads costs whose status changes, up
// to the queue that wakes its workload.
func BenchmarkStatusChange(b *testing.B) {
	r, items := idleFleet(b, byDefault)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		nw := items[i%len(items)]
		nw.ResourceVersion = fmt.Sprint(100 + i)
		nw.Status.Restarts++
		r.fleet.Shares.Observe(nw)
		i++
	}
}

// BenchmarkReports is a workload on 5,000 nodes of which 500 report a change within one
// delay: what one report costs with its part of the reconciliation. Goal: 1 ms.
func BenchmarkReports(b *testing.B) {
	r, items := idleFleet(b, byDefault)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		nw := items[i%len(items)]
		nw.ResourceVersion = fmt.Sprint(100 + i)
		if nw.Status.Conditions[0].Status = metav1.ConditionTrue; i%2 == 0 {
			nw.Status.Conditions[0].Status = metav1.ConditionFalse
		}
		r.fleet.Shares.Observe(nw)
		if i++; i%500 == 0 {
			if _, err := r.Reconcile(b.Context(), request("default", "web")); err != nil {
				b.Fatal(err)
			}
		}
	}
}
