// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func leaseRenewedAt(at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: v1alpha1.LeaseNamePrefix + "n1"},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &metav1.MicroTime{Time: at}},
	}
}

func TestShimState(t *testing.T) {
	now := killEpoch
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
		"never renewed":       {lease: &coordinationv1.Lease{ObjectMeta: leaseRenewedAt(now).ObjectMeta}, want: v1alpha1.ReasonLeaseExpired},
		"renewed":             {lease: leaseRenewedAt(ago(10)), want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second)},
		"expired":             {lease: leaseRenewedAt(ago(41)), want: v1alpha1.ReasonLeaseExpired},
		"expired this moment": {lease: leaseRenewedAt(ago(40)), want: v1alpha1.ReasonLeaseExpired},
		"expired at first sight": {
			lease: leaseRenewedAt(ago(41)), sights: []sight{{ago(41), false, ago(1)}}, want: v1alpha1.ReasonLeaseExpired,
		},
		"the node's clock is late, the renewal was seen": {
			lease: leaseRenewedAt(ago(3600)), sights: []sight{{ago(3610), false, ago(20)}, {ago(3600), true, ago(10)}},
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(30 * time.Second),
		},
		"the node's clock is early, no renewal was seen for long": {
			lease: leaseRenewedAt(now.Add(time.Hour)), sights: []sight{{now.Add(time.Hour), true, ago(50)}}, want: v1alpha1.ReasonLeaseExpired,
		},
		"a renewal that is about to be observed": {
			lease: leaseRenewedAt(ago(3600)), sights: []sight{{ago(3610), true, ago(50)}},
			want: v1alpha1.ReasonLeaseRenewed, wantExpires: now.Add(40 * time.Second),
		},
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if tc.lease != nil {
				builder = builder.WithObjects(tc.lease)
			}
			s := newShims("system")
			for _, sight := range tc.sights {
				s.observe(leaseRenewedAt(sight.renewed), sight.changed, sight.at)
			}
			var reader client.Reader = builder.Build()
			got, err := s.state(t.Context(), reader, "n1", now)
			if err != nil {
				t.Fatal(err)
			}
			if got.reason != tc.want || !got.expires.Equal(tc.wantExpires) || got.message == "" {
				t.Errorf("state = %+v, want %s until %s", got, tc.want, tc.wantExpires)
			}
		})
	}
}
