// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// wakes is a queue that notes who is woken and when.
type wakes struct {
	requestQueue
	got []string
}

func (w *wakes) AddAfter(r reconcile.Request, after time.Duration) {
	w.got = append(w.got, fmt.Sprint(r.Name, " ", after))
}

// A NodeWorkload wakes its workload at once, and a large one a little later where only a
// status has changed. What changes nothing wakes none.
func TestNodeWorkloadsWakeTheirs(t *testing.T) {
	for _, shares := range []int{1, 51} {
		t.Run(fmt.Sprint(shares), func(t *testing.T) {
			b := newBench(t, interceptor.Funcs{})
			list := &v1alpha1.NodeWorkloadList{}
			for i := range shares {
				list.Items = append(list.Items, *managertest.NodeWorkload(fmt.Sprint("n", i), "mw"))
			}
			b.fleet.Shares.Reset(list)
			q := &wakes{}
			b.watchShares(q)
			later := delay(shares)
			nw := list.Items[0].DeepCopy()
			expect := func(what string, want ...string) {
				t.Helper()
				if diff := cmp.Diff(want, q.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
				q.got = nil
			}
			if len(q.got) != shares {
				t.Errorf("woken %d times at the start, want %d", len(q.got), shares)
			}
			q.got = nil
			nw.Status.Restarts++
			b.fleet.Shares.Observe(nw)
			expect("nothing that counts")
			nw.Status.Phase = "Running"
			b.fleet.Shares.Observe(nw)
			expect("its status", "web "+later.String(), "web "+later.String())
			nw.Status.Kills = []v1alpha1.KillRecord{managertest.Kill("a", 1, v1alpha1.KillPhaseStopping, "")}
			b.fleet.Shares.Observe(nw)
			expect("a kill", "web "+later.String(), "web "+later.String())
			nw.Generation++
			b.fleet.Shares.Observe(nw)
			expect("its spec", "web 0s", "web 0s")
			let := nw.DeepCopy()
			let.OwnerReferences, let.Labels = nil, map[string]string{v1alpha1.LabelWorkload: "other"}
			b.fleet.Shares.Observe(let)
			expect("let go", "web 0s", "other 0s")
			b.fleet.Shares.Gone(let)
			expect("gone", "other 0s")
		})
	}
}
