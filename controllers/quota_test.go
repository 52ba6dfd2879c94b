// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A node for which a quota has no room waits, and gets its NodeWorkload as soon as the quota is
// raised.
func TestRaisedQuotaServesWhoWaits(t *testing.T) {
	c := newCluster(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "team"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"requests.cpu": resource.MustParse("500m"), "count/nodeworkloads.managedworkload.dev": resource.MustParse("100"),
		}},
	}
	c.must(api.Create(t.Context(), quota))
	counted := func() { // as its controller does, which does not run here
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{"requests.cpu": resource.MustParse("0"), "count/nodeworkloads.managedworkload.dev": resource.MustParse("0")}
		c.must(api.Status().Update(t.Context(), quota))
	}
	counted()
	nodes := []string{c.node("n1"), c.node("n2")}
	c.shimOn(nodes...)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("300m")}
	})
	words := "exceeded quota: team, requested: requests.cpu=300m, used: requests.cpu=300m, limited: requests.cpu=500m"
	waits := await(c, mw, "one of two nodes is served", func(mw *v1alpha1.ManagedWorkload) bool {
		ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
		return mw.Status.ReadyNodes == 1 && ready != nil && strings.Contains(ready.Message, "1 node waits (QuotaExceeded, since ") && strings.Contains(ready.Message, words)
	})
	if waits.Status.CurrentNodes != 1 {
		t.Errorf("%d NodeWorkloads where the quota has room for 1", waits.Status.CurrentNodes)
	}
	update(c, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard["requests.cpu"] = resource.MustParse("1") })
	counted()
	await(c, mw, "both are served", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.ReadyNodes == 2 })
}
