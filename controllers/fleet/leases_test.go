// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestShimState(t *testing.T) {
	now := managertest.Epoch
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	type sight struct{ renewed, at time.Time }
	long := []time.Time{ago(60), ago(50), ago(40), ago(30), ago(20), ago(10)}
	const unjudged = ""
	tests := map[string]struct {
		lease       *coordinationv1.Lease
		sights      []sight
		reads       []time.Time // that worked
		want        string
		wantExpires time.Time
	}{
		"no lease":      {want: v1alpha1.ReasonShimNotFound},
		"never renewed": {lease: &coordinationv1.Lease{ObjectMeta: managertest.Lease(now).ObjectMeta}, want: v1alpha1.ReasonLeaseExpired},
		"renewed": {
			lease: managertest.Lease(ago(10)), sights: []sight{{ago(20), ago(20)}, {ago(10), ago(10)}}, reads: long,
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second),
		},
		"expired": {
			lease: managertest.Lease(ago(41)), sights: []sight{{ago(51), ago(51)}, {ago(41), ago(41)}}, reads: long, want: v1alpha1.ReasonLeaseExpired,
		},
		"expired this moment": {
			lease: managertest.Lease(ago(40)), sights: []sight{{ago(40), ago(40)}}, reads: long, want: v1alpha1.ReasonLeaseExpired,
		},
		"expired at first sight": {
			lease: managertest.Lease(ago(41)), sights: []sight{{ago(41), ago(1)}}, reads: []time.Time{ago(1)},
			want: unjudged, wantExpires: now.Add(39 * time.Second),
		},
		"not renewed since the first sight": {
			lease: managertest.Lease(ago(100)), sights: []sight{{ago(100), ago(41)}}, reads: long, want: v1alpha1.ReasonLeaseExpired,
		},
		"expired, the manager has just begun to read": {
			lease: managertest.Lease(ago(50)), sights: []sight{{ago(60), ago(60)}, {ago(50), ago(50)}}, reads: []time.Time{ago(30), ago(20), ago(10)},
			want: unjudged, wantExpires: now.Add(readInterval),
		},
		"expired, the manager's reads failed meanwhile": {
			lease: managertest.Lease(ago(50)), sights: []sight{{ago(60), ago(60)}, {ago(50), ago(50)}}, reads: []time.Time{ago(60), ago(50), ago(20), ago(10)},
			want: unjudged, wantExpires: now.Add(readInterval),
		},
		"expired, the manager does not read": {
			lease: managertest.Lease(ago(50)), sights: []sight{{ago(60), ago(60)}, {ago(50), ago(50)}}, reads: []time.Time{ago(70), ago(60), ago(50), ago(40), ago(30)},
			want: unjudged, wantExpires: now.Add(readInterval),
		},
		"the node's clock is late, the renewal was seen": {
			lease: managertest.Lease(ago(3600)), sights: []sight{{ago(3610), ago(20)}, {ago(3600), ago(10)}}, reads: long,
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second),
		},
		"the node's clock is early, no renewal was seen for long": {
			lease: managertest.Lease(now.Add(time.Hour)), sights: []sight{{now.Add(time.Hour), ago(50)}}, reads: long, want: v1alpha1.ReasonLeaseExpired,
		},
		"a renewal that is about to be observed": {
			lease: managertest.Lease(ago(3600)), sights: []sight{{ago(3610), ago(50)}}, reads: long,
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(40 * time.Second),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(managertest.Scheme(t))
			if tc.lease != nil {
				builder = builder.WithObjects(tc.lease)
			}
			s := NewShims("system")
			for _, sight := range tc.sights {
				s.Observe(managertest.Lease(sight.renewed), sight.at)
			}
			for _, at := range tc.reads {
				s.reads.worked(at)
			}
			got, err := s.State(t.Context(), builder.Build(), "n1", now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Reason != tc.want || !got.Expires.Equal(tc.wantExpires) || (got.Message == "") != (tc.want == unjudged) {
				t.Errorf("state = %+v, want %q until %s", got, tc.want, tc.wantExpires)
			}
		})
	}
}

// A read that fails ends the contact, and one that works begins it again.
func TestKeepContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if away.Load() {
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		s := NewShims("system")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.KeepContact(ctx, c)
		}()
		expect := func(what string, after time.Duration, want bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := s.reads.covers(time.Now(), 40*time.Second); got != want {
				t.Errorf("%s: covers 40 s: %v, want %v", what, got, want)
			}
		}
		expect("at the start", 0, false)
		expect("after 39 s", 39*time.Second, false)
		expect("after 41 s", 2*time.Second, true)
		away.Store(true)
		expect("the API server is away", 10*time.Second, false)
		away.Store(false)
		expect("it is back", 10*time.Second, false)
		expect("40 s later", 40*time.Second, true)
		cancel()
		<-done
	})
}

// An API server that was away for a minute, or a manager that starts after that, writes
// nothing about shims that come back with it.
func TestSilenceOfAllIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleetBench(t, 300, time.Now().Add(-61*time.Second))
		b.reconcile()
		if b.writes != 0 {
			t.Errorf("%d writes at the first sight of expired leases", b.writes)
		}
		b.renew()
		b.reconcile()
		if b.writes != 0 {
			t.Errorf("%d writes after the leases were renewed", b.writes)
		}
		time.Sleep(61 * time.Second) // the API server is away, and so is all that reads it
		b.reconcile()
		b.shims.reads.worked(time.Now())
		b.reconcile()
		b.renew()
		b.reconcile()
		if b.writes != 0 {
			t.Errorf("%d writes because the API server was away", b.writes)
		}
	})
}

// Shims that are silent while the manager reads are reported, so many a second.
func TestManySilentShimsAreReportedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleetBench(t, 300, time.Now())
		for range 5 {
			b.shims.reads.worked(time.Now())
			time.Sleep(readInterval)
		}
		b.reconcile()
		if b.writes != changeBurst {
			t.Errorf("%d writes at once, want %d", b.writes, changeBurst)
		}
		time.Sleep(time.Second)
		b.reconcile()
		if b.writes != changeBurst+changeQPS {
			t.Errorf("%d writes after a second, want %d", b.writes, changeBurst+changeQPS)
		}
		for range 3 {
			time.Sleep(2 * changeRetry)
			b.reconcile()
		}
		if b.writes != 300 {
			t.Errorf("%d writes in the end, want 300", b.writes)
		}
	})
}

// fleetBench is a reconciler with one NodeWorkload and one Lease on each of many nodes.
type fleetBench struct {
	*Reconciler
	t      *testing.T
	nodes  int
	writes int
}

func newFleetBench(t *testing.T, nodes int, renewed time.Time) *fleetBench {
	t.Helper()
	b := &fleetBench{t: t, nodes: nodes}
	var objects []client.Object
	shims := NewShims("system")
	for i := range nodes {
		node := fmt.Sprint("n", i)
		nw := managertest.NodeWorkload(node, "")
		nw.Namespace = "default"
		meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLeaseRenewed, Message: "the shim renews its lease",
		})
		lease := managertest.Lease(renewed)
		lease.Name = v1alpha1.LeaseNamePrefix + node
		shims.Observe(lease, time.Now())
		objects = append(objects, nw, lease, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeWorkload{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			b.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}}).Build()
	b.Reconciler = NewReconciler(c, c, NewIndex(NewLedger(shims), shims), record.NewFakeRecorder(10), shims, 40*time.Second)
	return b
}

func (b *fleetBench) reconcile() {
	b.t.Helper()
	refresh(b.t, b.Reconciler)
	for i := range b.nodes {
		key := client.ObjectKey{Namespace: "default", Name: placement.NodeWorkloadName("web", fmt.Sprint("n", i))}
		if _, err := b.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// renew is every shim renewing its Lease, and the watch that sees it.
func (b *fleetBench) renew() {
	b.t.Helper()
	for i := range b.nodes {
		lease := &coordinationv1.Lease{}
		if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "system", Name: fmt.Sprint(v1alpha1.LeaseNamePrefix, "n", i)}, lease); err != nil {
			b.t.Fatal(err)
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if err := b.client.Update(b.t.Context(), lease); err != nil {
			b.t.Fatal(err)
		}
		b.shims.Observe(lease, time.Now())
	}
}
