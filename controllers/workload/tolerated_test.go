// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// taint lets nodes keep what they run, and get nothing new; no effect takes the taint away.
func (b *bench) taint(effect corev1.TaintEffect, names ...string) {
	b.t.Helper()
	for _, name := range names {
		node := &corev1.Node{}
		if err := b.client.Get(b.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			b.t.Fatal(err)
		}
		node.Spec.Taints = nil
		if effect != "" {
			node.Spec.Taints = []corev1.Taint{managertest.Taint("full", effect)}
		}
		if err := b.client.Update(b.t.Context(), node); err != nil {
			b.t.Fatal(err)
		}
	}
}

// A node that is only tolerated takes up budget while it is changed, and is named as what
// the others wait for. What cannot be carried out there stalls, also where no node is
// desired; taken back it is over.
func TestToleratedNodeThatHoldsUpOthers(t *testing.T) {
	tests := map[string]struct {
		tainted        []string
		maxUnavailable int
		updating       string
		stalled        string
		waiting        string
		back           string
	}{
		"one desired": {
			[]string{"n2", "n3", "n4", "n5"}, 1, "updating 0/1", "stalled 0/1", "4 nodes wait (MaxUnavailable, since ", "ready",
		},
		"none desired": {
			[]string{"n1", "n2", "n3", "n4", "n5"}, 1, "updating; no matching nodes; still on 5 nodes",
			"stalled; no matching nodes; still on 5 nodes", "4 nodes wait (MaxUnavailable, since ", "no matching nodes; still on 5 nodes",
		},
		"none desired, none waits": {
			[]string{"n1", "n2", "n3", "n4", "n5"}, 5, "updating; no matching nodes; still on 5 nodes",
			"stalled; no matching nodes; still on 5 nodes", "and 2 more", "no matching nodes; still on 5 nodes",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFleet(t, interceptor.Funcs{})
				b.taint(corev1.TaintEffectNoSchedule, tc.tainted...)
				b.turn()
				b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
					image("bad:1")(spec)
					spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt(tc.maxUnavailable))}}
					spec.ProgressDeadlineSeconds = new(int32(60))
				})
				images := func() map[string]int {
					return map[string]int{"bad:1": tc.maxUnavailable, first: 5 - tc.maxUnavailable}
				}
				for range 4 {
					b.expect("under way", b.turn(), images(), tc.updating, "InProgress")
					time.Sleep(5 * time.Second)
				}
				time.Sleep(10 * time.Minute)
				mw := b.turn()
				b.expect("late", mw, images(), tc.stalled, "Failed")
				text := message(mw, v1alpha1.ConditionStalled)
				for _, want := range []string{"updating n", "(ImagePullBackOff; no such image, since ", tc.waiting} {
					if !strings.Contains(text, want) {
						t.Errorf("Stalled: %s, want %q", text, want)
					}
				}
				if ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady); ready.Reason != v1alpha1.ReasonUpdating {
					t.Errorf("Ready: %+v", ready)
				}
				b.change(image(first))
				b.turn()
				b.turn()
				b.expect("taken back", b.turn(), map[string]int{first: 5}, tc.back, "Current")
			})
		})
	}
}
