// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A workload is active until its containers have ended. One that a shutdown of its node ended
// stays ended in the kubelet's words when the shim is back; others run again.
func TestWorkloadsOfANodeThatShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		p.Update(workload("b"))
		n.settle(time.Minute)
		active := p.Active()
		if len(active) != 2 || active[0].UID != "a" || active[1].UID != "b" {
			t.Fatalf("active: %+v", active)
		}
		p.Terminate("a", plan.DecideShutdown(active[0], plan.ShutdownPeriod{Seconds: 20}))
		if got := p.Active(); len(got) != 2 {
			t.Errorf("%d workloads are active while one is being killed", len(got))
		}
		n.settle(time.Minute)
		if got := p.Active(); len(got) != 1 || got[0].UID != "b" {
			t.Errorf("active after the kill: %+v", got)
		}
		st := n.published("a")
		c := meta.FindStatusCondition(st.Conditions, string(corev1.DisruptionTarget))
		if st.Phase != corev1.PodFailed || st.Reason != "Terminated" || st.Message != "Pod was terminated in response to imminent node shutdown." || c == nil || c.Reason != "TerminationByKubelet" {
			t.Errorf("phase %s, reason %q, message %q, condition %+v", st.Phase, st.Reason, st.Message, c)
		}
		m := restarted(t, n)
		p = m.start(t)
		p.Update(workload("a"))
		p.Update(workload("b"))
		m.settle(time.Hour)
		if got := p.Active(); len(got) != 1 || got[0].UID != "b" {
			t.Errorf("active after a restart: %+v", got)
		}
	})
}
