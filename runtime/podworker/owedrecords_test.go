// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What a stop has ended starts when the request is deleted, also by a shim that has only the
// records of the object: its checkpoint is lost.
func TestStopIsLetGoWithoutACheckpoint(t *testing.T) {
	for _, p := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stopsWithoutACheckpoint(t, p) })
		})
	}
}

func stopsWithoutACheckpoint(t *testing.T, p corev1.RestartPolicy) {
	n := newFakeNode(t)
	failing(n)
	pool := n.start(t)
	pool.Update(workload("a", policy(p)))
	n.settle(time.Second)
	pool.Update(workload("a", policy(p), asking(v1alpha1.RequestStop)))
	n.settle(time.Minute)
	if phase, _ := n.asked(); phase != v1alpha1.RequestHeld {
		t.Fatalf("request %s", phase)
	}

	m := restarted(t, n)
	m.apiDown = false
	failing(m)
	m.synced = append(m.synced, n.synced...) // instances are named by that
	m.forget(t)
	later := m.start(t)
	status := n.published("a")
	later.Update(workload("a", policy(p), generation(3), func(nw *template.Workload) { nw.Status = status }))
	m.settle(time.Minute)
	if st := m.published("a"); st.Phase != corev1.PodRunning || m.runs(t, "a") == "" {
		t.Errorf("phase %s", st.Phase)
	}
}

// forget loses the checkpoint.
func (n *fakeNode) forget(t *testing.T) {
	t.Helper()
	checkpoints, err := n.store.Load()
	if err != nil || len(checkpoints) != 1 {
		t.Fatalf("%d checkpoints: %v", len(checkpoints), err)
	}
	if err := n.store.Remove(checkpoints[0].Identity.UID); err != nil {
		t.Fatal(err)
	}
}
