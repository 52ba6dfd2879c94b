// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A node's clock that is set neither ends a back-off, nor lengthens it, nor makes it
// begin again, whenever that happens. The container is restarted in second 1, exits in
// second 2, and is looked at each second from the third on.
func TestBackoffAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	const restart, exit, firstLook = 1, 2, 3
	for name, setAt := range map[string]int{
		"before the exit": exit, "before it is seen": firstLook, "while it waits": firstLook + 1, "never": 1000,
	} {
		for _, by := range []time.Duration{time.Hour, -time.Hour, 5 * time.Second} {
			t.Run(name+" by "+by.String(), func(t *testing.T) {
				t.Parallel()
				at := func(second int) plan.Moment {
					m := plan.Moment{Wall: time.Unix(100_000, 0), SinceBoot: time.Hour, BootID: "boot"}
					if second >= setAt {
						m.Wall = m.Wall.Add(by)
					}
					m.Wall, m.SinceBoot = m.Wall.Add(seconds(float64(second))), m.SinceBoot+seconds(float64(second))
					return m
				}
				pod := newPod(corev1.RestartPolicyAlways, "c")
				c := &pod.Spec.Containers[0]
				check := func(id string, ended plan.Moment, now plan.Moment, entry *plan.Backoff) (*plan.Backoff, *plan.Wait) {
					_, next, wait := plan.CheckBackoff(&plan.SyncRequest{
						Pod: pod, Backoff: map[string]*plan.Backoff{plan.BackoffKey(pod, c): entry},
						Observed: &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: id, Name: "c", State: plan.ContainerExited, FinishedAt: ended.Wall}}},
					}, c, plan.Differences{}, now)
					return next, wait
				}
				entry, wait := check("first", at(0), at(restart), nil)
				second := firstLook
				for ; second == firstLook || wait != nil; second++ {
					if plan.DefaultBackoffPolicy().Forgotten(entry, at(second)) {
						t.Fatalf("the entry is forgotten in second %d", second)
					}
					entry, wait = check("second", at(exit), at(second), entry)
				}
				// Ten seconds after the exit, or after the restart where the exit's time means nothing.
				if started := second - 1; started < restart+10 || started > exit+10 || entry.Current != 20*time.Second {
					t.Errorf("it starts in second %d, and waits %s the next time; want about second %d, and 20s", started, entry.Current, exit+10)
				}
				// The start failed: it is the same exit that counts.
				if _, wait = check("second", at(exit), at(second), entry); wait == nil {
					t.Error("a start that failed is tried again at once")
				}
			})
		}
	}
}
