// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestShimState(t *testing.T) {
	now := managertest.Epoch
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	type sight struct {
		renewed time.Time
		changed bool
		at      time.Time
	}
	tests := map[string]struct {
		lease       *coordinationv1.Lease
		sights      []sight
		want        string
		wantExpires time.Time
	}{
		"no lease":            {want: v1alpha1.ReasonShimNotFound},
		"never renewed":       {lease: &coordinationv1.Lease{ObjectMeta: managertest.Lease(now).ObjectMeta}, want: v1alpha1.ReasonLeaseExpired},
		"renewed":             {lease: managertest.Lease(ago(10)), want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second)},
		"expired":             {lease: managertest.Lease(ago(41)), want: v1alpha1.ReasonLeaseExpired},
		"expired this moment": {lease: managertest.Lease(ago(40)), want: v1alpha1.ReasonLeaseExpired},
		"expired at first sight": {
			lease: managertest.Lease(ago(41)), sights: []sight{{ago(41), false, ago(1)}}, want: v1alpha1.ReasonLeaseExpired,
		},
		"the node's clock is late, the renewal was seen": {
			lease: managertest.Lease(ago(3600)), sights: []sight{{ago(3610), false, ago(20)}, {ago(3600), true, ago(10)}},
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second),
		},
		"the node's clock is early, no renewal was seen for long": {
			lease: managertest.Lease(now.Add(time.Hour)), sights: []sight{{now.Add(time.Hour), true, ago(50)}}, want: v1alpha1.ReasonLeaseExpired,
		},
		"a renewal that is about to be observed": {
			lease: managertest.Lease(ago(3600)), sights: []sight{{ago(3610), true, ago(50)}},
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
				s.observe(managertest.Lease(sight.renewed), sight.changed, sight.at)
			}
			var reader client.Reader = builder.Build()
			got, err := s.State(t.Context(), reader, "n1", now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Reason != tc.want || !got.Expires.Equal(tc.wantExpires) || got.Message == "" {
				t.Errorf("state = %+v, want %s until %s", got, tc.want, tc.wantExpires)
			}
		})
	}
}
