// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// adopt takes the status of an object for which there is no checkpoint.
func (m *memory) adopt(nw *template.Workload, clusterID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nw.Status.DeepCopyInto(&m.rec.Status)
	if nw.Status.Phase != "" {
		previous := status.PodStatus(&m.rec.Status)
		m.rec.PodStatus = &previous
	}
	m.rec.Exits = plan.ExitsByStatus(m.rec.PodStatus)
	m.rec.TemplateHash = nw.Status.TemplateHash
	m.want.ran = hasRun(nw.Status.TemplateHash, m.rec.PodStatus)
	m.rec.ClusterID = clusterID
	m.oweLocked(plan.OwedByRecords(m.rec.Status.Requests, m.rec.Status.Kills, m.rec.PodStatus))
}

// restore takes over what an earlier process knew.
func (m *memory) restore(cp *Checkpoint, cfg *Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rec = *cp
	m.rec.Backoff = plan.BackoffAfterRestart(cp.Backoff, plan.AllDifferences())
	if cp.BootID != cfg.BootID || cfg.BootID == "" {
		m.rec.Active, m.rec.RequestTimes = nil, nil // they count from another boot
	}
	if cp.BootID != cfg.BootID && cp.PodStatus != nil && cp.State != Terminated {
		st := status.OfAnotherBoot(cp.Pod, *cp.PodStatus, cfg.Clock.Now())
		m.rec.PodStatus = &st
	}
	m.want = desired{
		pod:         cp.Pod,
		previous:    cp.Previous,
		shown:       cp.Pod,
		hash:        cp.PodHash,
		generation:  cp.Generation,
		gone:        cp.Gone,
		orphan:      cp.Orphan,
		deleted:     cp.Gone || cp.Orphan || (cp.Pod != nil && cp.Pod.DeletionTimestamp != nil),
		requestedBy: cp.RequestedBy,
		asked:       cp.Termination,
		version:     1,
		ran:         cp.Ran || hasRun(cp.TemplateHash, cp.PodStatus),

		restartBackoff: cp.RestartBackoff,
		requests:       cp.Requests,
	}
	if cp.Pod != nil {
		m.want.held = cfg.Exceeds(cp.Pod)
		m.want.exceeds = m.want.held
	}
	if cp.BootID != cfg.BootID {
		m.want.previous = nil // nothing of it runs
	}
	m.published = publication{pending: true, recalled: cp.State != Terminated}
	if cp.BootID != cfg.BootID {
		m.rec.BootID = cfg.BootID
		m.touch()
	}
}

// hasRun is whether something of a workload ran, by what was recorded of it.
func hasRun(templateHash string, st *corev1.PodStatus) bool {
	hasID := func(c corev1.ContainerStatus) bool { return c.ContainerID != "" }
	return templateHash != "" ||
		st != nil && (slices.ContainsFunc(st.ContainerStatuses, hasID) || slices.ContainsFunc(st.InitContainerStatuses, hasID))
}
