// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// backoff sets the first wait before a restart, in seconds.
func backoff(seconds int32) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: ptr.To(seconds)}
	}
}

// A workload cannot have its containers restarted more often than the node's administrator allows, and its status says so
// as long as it asks for that.
func TestABackoffBelowTheNodesMinimumIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.restoreWith(t, func(cfg *Config) { cfg.MinRestartBackoff = 10 * time.Second })
		n.begin(t)
		p.Update(workload("a", backoff(1)))
		n.settle(time.Second)
		if got := n.synced[0].BackoffPolicy.Base; got != 10*time.Second {
			t.Errorf("the first wait is %v", got)
		}
		raised := func() *metav1.Condition {
			return meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionRestartBackoffRaised)
		}
		if c := raised(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonBelowNodeMinimum || c.Message == "" {
			t.Errorf("condition %+v", c)
		}
		p.Update(workload("a", backoff(20), generation(2)))
		n.settle(time.Minute)
		if c := raised(); c != nil {
			t.Errorf("a workload that asks for more has the condition %+v", c)
		}
	})
}
