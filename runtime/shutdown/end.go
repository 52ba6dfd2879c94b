// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// lookInterval is the time between two looks whether a group has ended.
const lookInterval = 100 * time.Millisecond

// end ends the workloads group by group, and then lets the node go down. A shutdown that is
// cancelled, as ctx then is, ends no further group and keeps the lock.
func (m *Manager) end(ctx context.Context) {
	defer func() {
		if ctx.Err() == nil {
			m.hold(nil) // also after a panic: the machine waits for nothing else
		}
	}()
	for _, group := range plan.ShutdownGroups(m.cfg.Periods, m.cfg.Workloads.Active()) {
		for _, pod := range group.Pods {
			m.cfg.Workloads.Terminate(pod.UID, plan.DecideShutdown(pod, group.ShutdownPeriod))
		}
		left := m.await(ctx, group)
		m.cfg.Log.Info("Ended workloads of the node that shuts down", "priority", group.Priority, "workloads", len(group.Pods), "left", left)
		if ctx.Err() != nil {
			return
		}
	}
}

// await waits until nothing of a group runs, or its time is over, and returns how many are left.
func (m *Manager) await(ctx context.Context, group plan.ShutdownGroup) int {
	over := time.NewTimer(time.Duration(group.Seconds) * time.Second)
	defer over.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		left := m.left(group.Pods)
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return left
		case <-over.C:
			return left
		case <-look.C:
		}
	}
}

// left counts those of the pods of which something may run.
func (m *Manager) left(pods []*corev1.Pod) int {
	active := map[types.UID]bool{}
	for _, pod := range m.cfg.Workloads.Active() {
		active[pod.UID] = true
	}
	left := 0
	for _, pod := range pods {
		if active[pod.UID] {
			left++
		}
	}
	return left
}
