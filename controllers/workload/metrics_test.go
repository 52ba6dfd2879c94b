// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// gathered are the values of gauges about the workload of a bench, by name and the labels that
// are not its name.
func gathered(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name, ours := strings.TrimPrefix(family.GetName(), "managedworkload_"), 0
			for _, label := range m.Label {
				switch label.GetName() + "=" + label.GetValue() {
				case "namespace=default", "name=web":
					ours++
				default:
					name += " " + label.GetValue()
				}
			}
			if ours == 2 && m.Gauge != nil {
				values[name] = m.Gauge.GetValue()
			}
		}
	}
	return values
}

// complete lets the containers of nodes end with success.
func (b *bench) complete(nodes ...string) {
	b.t.Helper()
	for _, node := range nodes {
		nw := &v1alpha1.NodeWorkload{}
		if err := b.client.Get(b.t.Context(), types.NamespacedName{Namespace: "default", Name: placement.NodeWorkloadName("web", node)}, nw); err != nil {
			b.t.Fatal(err)
		}
		nw.Status.Phase = corev1.PodSucceeded
		meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse})
		if err := b.client.Status().Update(b.t.Context(), nw); err != nil {
			b.t.Fatal(err)
		}
	}
}

// The gauges have what the alerts go by, follow the roll-out, and go with the workload.
func TestWorkloadMetrics(t *testing.T) {
	at := func(nodes string, further map[string]float64) map[string]float64 {
		want := map[string]float64{}
		for i, state := range []string{"desired", "current", "updated", "ready", "available", "completed", "unavailable", "unreachable", "misscheduled"} {
			var n float64
			if _, err := fmt.Sscan(strings.Fields(nodes)[i], &n); err != nil {
				t.Fatal(err)
			}
			want["nodes "+state] = n
		}
		want["nodes drained"] = 0
		maps.Copy(want, further)
		return want
	}
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		expect := func(what string, want map[string]float64) {
			t.Helper()
			if diff := cmp.Diff(want, gathered(t)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("complete", at("5 5 5 5 5 0 0 0 0", nil))
		time.Sleep(time.Minute)
		paused := float64(time.Now().Unix())
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { image("bad:1")(spec); spec.Paused = true })
		b.turn()
		time.Sleep(time.Minute)
		b.turn()
		expect("paused", at("5 5 0 5 5 0 0 0 0", map[string]float64{
			"rollout_waiting_nodes Paused": 5, "rollout_waiting_timestamp_seconds Paused": paused,
		}))
		resumed := float64(time.Now().Unix())
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Paused = false })
		b.turn()
		time.Sleep(time.Hour)
		expect("resumed", at("5 5 0 5 5 0 0 0 0", map[string]float64{
			"rollout_waiting_nodes MaxUnavailable": 4, "rollout_waiting_timestamp_seconds MaxUnavailable": resumed,
			"rollout_progress_timestamp_seconds": resumed,
		}))
		b.taint("NoSchedule", "n4", "n5")
		if mw := b.turn(); !strings.HasPrefix(mw.Status.Summary, "stalled ") {
			t.Errorf("summary %q", mw.Status.Summary)
		}
		expect("stalled, with two tolerated nodes", at("3 3 0 3 3 0 0 0 2", map[string]float64{
			"stalled ProgressDeadlineExceeded":     1,
			"rollout_waiting_nodes MaxUnavailable": 4, "rollout_waiting_timestamp_seconds MaxUnavailable": resumed,
			"rollout_progress_timestamp_seconds": resumed,
		}))
		b.taint("", "n4", "n5")
		refused := func(refused bool) func(*v1alpha1.ManagedWorkloadSpec) {
			return func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.Template.Spec.ResourceClaims = map[bool][]corev1.PodResourceClaim{true: {{Name: "gpu"}}}[refused]
			}
		}
		b.change(refused(true))
		b.turn()
		if got := gathered(t); got["stalled RefusedFields"] != 1 || slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(name string) bool {
			return strings.HasPrefix(name, "stalled ") && name != "stalled RefusedFields"
		}) {
			t.Errorf("refused: %v", got)
		}
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { refused(false)(spec); image(first)(spec) })
		b.turn()
		b.turn("n1")
		b.turn("n1")
		expect("n1 is not ready", at("5 5 5 4 4 0 1 0 0", nil))
		b.turn()
		b.turn()
		expect("complete again", at("5 5 5 5 5 0 0 0 0", nil))
		b.complete("n2", "n3")
		if _, _, err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		expect("two have completed", at("5 5 5 3 3 2 2 0 0", nil))
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { image("bad:1")(spec) })
		b.turn()
		b.forget(types.NamespacedName{Namespace: "other", Name: "web"})
		b.forget(types.NamespacedName{Namespace: "default", Name: "other"})
		if got := gathered(t); len(got) != 13 {
			t.Errorf("after other workloads have ended: %v", got)
		}
		b.change(refused(true))
		b.turn()
		if got := gathered(t)["stalled RefusedFields"]; got != 1 {
			t.Errorf("refused again: %v", got)
		}
		mw := b.workload()
		mw.Finalizers = nil
		if err := b.client.Update(t.Context(), mw); err != nil {
			t.Fatal(err)
		}
		if err := b.client.Delete(t.Context(), mw); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
			t.Fatal(err)
		}
		expect("deleted", map[string]float64{})
	})
}
