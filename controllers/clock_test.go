// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// renewBy makes the Lease of a node's shim, or renews it, by a clock that is ahead, and returns
// when that was by managedFields. A Lease that is made without a spec would have none for good.
func (c *cluster) renewBy(node string, ahead time.Duration) time.Time {
	c.t.Helper()
	lease := leaseOf(node)
	_, err := controllerutil.CreateOrUpdate(c.ctx, api, lease, func() error {
		lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To[int32](36000), &metav1.MicroTime{Time: time.Now().Add(ahead)}
		return nil
	})
	c.must(err)
	written := writes.LastWrite(lease.ManagedFields, "spec", "renewTime")
	if written == nil {
		c.t.Fatalf("managedFields do not say when the Lease was renewed: %v", lease.ManagedFields)
	}
	return written.Time.Time
}

// The API server notes by its own clock when a shim renewed its Lease, each time: the manager
// measures the node's clock by that. Another writer does not change it.
func TestManagedFieldsSayWhenAShimRenewed(t *testing.T) {
	c := newCluster(t)
	n1 := c.nodeWithoutShim("n1")
	first := c.renewBy(n1, 0)
	if off := time.Since(first).Abs(); off > 10*time.Second {
		t.Errorf("renewed %s from now", off)
	}
	for !c.renewBy(n1, -time.Hour).After(first) { // they have seconds
		if time.Since(first) > 30*time.Second {
			t.Fatalf("still renewed at %s", first)
		}
	}
	last := c.renewBy(n1, -time.Hour)
	for annotated := last; !annotated.After(last); {
		lease := leaseOf(n1)
		c.must(api.Patch(t.Context(), lease, client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"a":"`+time.Now().String()+`"}}}`)), client.FieldOwner("kubectl")))
		if got := writes.LastWrite(lease.ManagedFields, "spec", "renewTime"); got == nil || !got.Time.Time.Equal(last) {
			t.Fatalf("after an annotation: renewed at %v, want %s", got, last)
		}
		annotated = writes.LastWrite(lease.ManagedFields, "metadata", "annotations", "a").Time.Time
	}
}

// The manager knows from the Lease that a node's clock is behind: a kill there is as new as
// others. It believes a clock that is right, however late a record is.
func TestKillsByTheClockOfANode(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right": 0, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			n1 := c.node("n1")
			c.shimOn(n1)
			mw := await(c, c.workload(), "Ready", readyOn(1))
			nw := c.nodeWorkload(n1)
			responds := func(status metav1.ConditionStatus, reason string) func(*v1alpha1.NodeWorkload) bool {
				return func(nw *v1alpha1.NodeWorkload) bool {
					return hasCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding, status, reason)
				}
			}
			c.must(api.Delete(t.Context(), leaseOf(n1)))
			await(c, nw, "no shim", responds(metav1.ConditionFalse, v1alpha1.ReasonShimNotFound))
			c.renewBy(n1, ahead)
			await(c, nw, "a shim", responds(metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed))
			updateStatus(c, nw, func(nw *v1alpha1.NodeWorkload) {
				at := metav1.NewMicroTime(time.Now().Add(-time.Hour))
				nw.Status.Kills = []v1alpha1.KillRecord{{
					ID: "a", Container: "app", Trigger: v1alpha1.TriggerDefinitionChanged, Phase: v1alpha1.KillPhaseStopping, Summary: "stopping",
					Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod}, StartTime: at,
				}}
			})
			mw = await(c, mw, "the kill", func(mw *v1alpha1.ManagedWorkload) bool { return len(mw.Status.RecentKills) == 1 })
			switch observed := mw.Status.RecentKills[0].ObservedTime; {
			case ahead == 0 && observed != nil:
				t.Errorf("observed at %s, want its own time", observed)
			case ahead != 0 && (observed == nil || time.Since(observed.Time) > time.Minute):
				t.Errorf("observed at %v, want now", observed)
			}
		})
	}
}
