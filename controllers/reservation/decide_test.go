// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// plus is what a Pod requests that reserves so much.
func plus(milliCPU, mebibytes int64) fleet.Amount {
	return Own.Plus(fleet.Amount{MilliCPU: milliCPU, Memory: mebibytes << 20})
}

// shares are those of a node, the oldest first, each with what it requests of CPU.
func shares(milliCPU ...int64) (all []*fleet.Share) {
	for i, m := range milliCPU {
		all = append(all, &fleet.Share{UID: types.UID(fmt.Sprint(i)), Namespace: "ns", Name: fmt.Sprint(i), Amount: fleet.Amount{MilliCPU: m}})
	}
	return all
}

// What is asked for is the sum of what runs or may run on the node, as far as it has so much. The
// oldest have what is granted.
func TestDecide(t *testing.T) {
	granted := func(milliCPU int64) *Pod {
		return &Pod{Name: "p", Answered: true, Asked: plus(milliCPU, 0), Granted: plus(milliCPU, 0)}
	}
	deferred := func(milliCPU int64) *Pod {
		return &Pod{Name: "p", Answered: true, Granted: plus(milliCPU, 0), Pending: fleet.Said{Reason: "Deferred", Message: "no room"}}
	}
	second := types.NamespacedName{Namespace: "ns", Name: "1"}
	denied := retries{denied: map[types.NamespacedName]string{second: ""}}
	trial := retries{denied: denied.denied, trial: second}
	ended := shares(100, 200)
	ended[0].Phase = corev1.PodSucceeded
	const reserved, nothing, removed, kept = "True Reserved", "True NothingRequested", "removed", "kept"
	tests := map[string]struct {
		facts facts
		want  int64
		say   []string
	}{
		"nothing runs":              {facts{pod: granted(100), used: true}, 0, nil},
		"granted":                   {facts{shares: shares(100, 200), pod: granted(300), used: true}, 300, []string{reserved, reserved}},
		"asked for, no answer":      {facts{shares: shares(100, 200), pod: granted(100), used: true}, 300, []string{reserved, kept}},
		"no answer for long":        {facts{shares: shares(100, 200), pod: granted(100), used: true, late: true}, 300, []string{reserved, "False ResizePending"}},
		"deferred":                  {facts{shares: shares(100, 200, 50), pod: deferred(150), used: true}, 350, []string{reserved, "False Deferred", reserved}},
		"given up":                  {facts{shares: shares(100, 200, 50), pod: granted(350), used: true, retries: denied}, 150, []string{reserved, "False ResizeBackOff", reserved}},
		"asked for again":           {facts{shares: shares(100, 20, 50), pod: granted(150), used: true, retries: trial}, 170, []string{reserved, "False ResizeBackOff", reserved}},
		"refused":                   {facts{shares: shares(100), pod: granted(0), used: true, refused: "forbidden"}, 100, []string{"False ResizeRefused"}},
		"requests nothing":          {facts{shares: shares(0), used: true}, 0, []string{nothing}},
		"ended":                     {facts{shares: ended, pod: granted(200), used: true}, 200, []string{removed, reserved}},
		"more than the node has":    {facts{shares: shares(100, 5000, 200), pod: granted(300), used: true, allocatable: plus(1000, 100)}, 300, []string{reserved, "False ExceedsNode", reserved}},
		"no Pod":                    {facts{shares: shares(100), used: true}, 100, []string{kept}},
		"no Pod for long":           {facts{shares: shares(100), used: true, late: true}, 100, []string{"False NoReservingPod"}},
		"no node has one":           {facts{shares: shares(100, 0)}, 0, []string{kept, kept}},
		"no node has one, for long": {facts{shares: shares(100, 0), late: true}, 0, []string{removed, removed}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.facts)
			if want := plus(tc.want, 0); d.want != want {
				t.Errorf("asks for %+v, want %+v", d.want, want)
			}
			var say []string
			for _, s := range tc.facts.shares {
				switch said, decided := d.said[s.UID]; {
				case !decided:
					say = append(say, kept)
				case said == nil:
					say = append(say, removed)
				default:
					say = append(say, string(said.Status)+" "+said.Reason)
				}
			}
			if diff := cmp.Diff(tc.say, say); diff != "" {
				t.Errorf("says (-want +got):\n%s", diff)
			}
		})
	}
}

// The kubelet's reasons are those of the condition.
func TestKubeletsReasons(t *testing.T) {
	if v1alpha1.ReasonDeferred != corev1.PodReasonDeferred || v1alpha1.ReasonInfeasible != corev1.PodReasonInfeasible {
		t.Error("they differ")
	}
}
