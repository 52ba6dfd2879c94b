// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
)

// The deadline that counts is the template's, also while what an earlier template made is
// kept.
func TestActiveDeadlineWhileASandboxWaits(t *testing.T) {
	const never = time.Hour
	for name, tt := range map[string]struct {
		before, after int64 // none if 0
		want          time.Duration
	}{
		"removed":   {60, 0, never},
		"extended":  {60, 300, 300 * time.Second},
		"added":     {0, 60, 60 * time.Second},
		"shortened": {600, 60, 60 * time.Second},
		"over":      {600, 5, 10 * time.Second},
		"the same":  {60, 60, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			limit := func(seconds int64) func(*template.Workload) {
				return func(nw *template.Workload) {
					if seconds > 0 {
						nw.Template.Spec.ActiveDeadlineSeconds = &seconds
					}
				}
			}
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				newRegistry(n)
				p := n.start(t)
				p.Update(workload("w", limit(tt.before)))
				n.settle(10 * time.Second)
				p.Update(workload("w", generation(2), image("absent:2"), onTheHost, limit(tt.after)))
				left := tt.want - 10*time.Second
				if left > 0 {
					n.settle(left - 2*time.Second)
					if st := n.published("w"); st.Phase != corev1.PodRunning || len(n.killed) > 0 || n.waits("w") == nil {
						t.Fatalf("phase %s, %d kills, condition %+v before the deadline", st.Phase, len(n.killed), n.waits("w"))
					}
				}
				if tt.want == never {
					return
				}
				n.settle(4 * time.Second)
				if st := n.published("w"); st.Phase != corev1.PodFailed || st.Reason != "DeadlineExceeded" || len(n.killed) != 1 {
					t.Errorf("phase %s, reason %q, %d kills after the deadline", st.Phase, st.Reason, len(n.killed))
				}
			})
		})
	}
}
