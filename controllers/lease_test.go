// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A manager that hung until another leads does not give up the other's Lease; it gives up its own.
func TestTheLeaseOfAnotherIsNotGivenUp(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	lock := func(identity string) *ownLease {
		return &ownLease{Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: leaderElectionID}, Client: kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}}
	}
	hung, other := lock("hung"), lock("other")
	if err := hung.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "hung"}); err != nil {
		t.Fatal(err)
	}
	lead := func(l *ownLease, identity string) error {
		t.Helper()
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: identity})
	}
	if err := lead(other, "other"); err != nil {
		t.Fatal(err)
	}
	if err := lead(hung, ""); err == nil {
		t.Error("the Lease of another was given up")
	}
	if err := lead(other, ""); err != nil {
		t.Errorf("its own was not given up: %v", err)
	}
	got, _, err := other.Get(t.Context())
	if err != nil || got.HolderIdentity != "" {
		t.Errorf("held by %q, error %v", got.HolderIdentity, err)
	}
}
