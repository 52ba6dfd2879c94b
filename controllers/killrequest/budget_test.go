// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A request in the order of the roll-out has the budget of the roll-out: a node counts where the
// roll-out counts it.
func TestBudgetIsThatOfTheRollOut(t *testing.T) {
	t.Parallel()
	onN1 := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"on": "n1"}}}
	everywhere := &corev1.PodTemplateSpec{}
	tests := map[string]struct {
		admitted *corev1.PodTemplateSpec
		blocked  map[string]bool
		note     func(*bench)
		begins   bool
	}{
		"a node that has no NodeWorkload yet takes up budget":         {admitted: everywhere},
		"not one that the admitted template does not match":           {admitted: onN1, begins: true},
		"nor one on which another object has the name":                {admitted: everywhere, blocked: map[string]bool{"n2": true}, begins: true},
		"nor one where no template was ever accepted by this manager": {note: func(b *bench) { b.fleet.Shares.NoteRollOut("web-uid", &fleet.RollOut{}) }, begins: true},
		"nothing begins before the roll-out was looked at":            {note: func(b *bench) { b.fleet.Shares.NoteRollOut("web-uid", nil) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestRollOut }, "n1")
			n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"on": "n1"}}}
			if err := b.client.Update(t.Context(), n1); err != nil {
				t.Fatal(err)
			}
			if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}); err != nil {
				t.Fatal(err)
			}
			if err := b.client.Create(t.Context(), managertest.LeaseOf("n2", time.Now())); err != nil {
				t.Fatal(err)
			}
			if tc.note != nil {
				tc.note(b)
			} else {
				b.rollsOut(tc.admitted, tc.blocked)
			}
			b.refresh()
			for range 3 {
				b.look()
			}
			if begins := len(b.asked()) == 1; begins != tc.begins {
				t.Errorf("the request has begun: %v, want %v: %q", begins, tc.begins, b.request().Status.Message)
			}
		})
	}
}
