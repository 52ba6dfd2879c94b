// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Times of the loop. (kubelet kubelet.go:evictionMonitoringPeriod, eviction_manager.go)
const (
	interval = 10 * time.Second
	// goneTimeout is how long the loop waits for what an evicted workload leaves, and goneInterval
	// the time between two looks at that.
	goneTimeout  = 30 * time.Second
	goneInterval = time.Second
)

// Words of the event about the node. (kubelet eviction_manager.go:synchronize)
const (
	reasonThresholdMet  = "EvictionThresholdMet"
	messageThresholdMet = "Attempting to reclaim %s"
)

// Node is what is observed of the node.
type Node interface {
	// Observe returns what could be observed, also with an error. separate says that the
	// runtime keeps images and writable layers on another file system than the shim its pods.
	Observe(ctx context.Context) (observed plan.Observations, separate bool, err error)
}

// Stats measures what workloads use.
type Stats interface {
	// Uses returns what pods use, by UID; one of which nothing is known is left out. disk says
	// that the use of the disk matters.
	Uses(ctx context.Context, pods []*corev1.Pod, disk bool) (map[types.UID]*plan.PodUse, error)
}

// Workloads are those of the node.
type Workloads interface {
	// Candidates returns the pods of the workloads of which something was started and whose end was
	// not requested, in a stable order.
	Candidates() []*corev1.Pod
	// Terminate ends a workload and returns at once; false if there is none with that UID.
	Terminate(uid types.UID, t plan.Termination) bool
	// Ended reports whether nothing of a workload runs, and whether nothing that only running
	// containers need is left of it either.
	Ended(uid types.UID) (dead, released bool)
}

// Reclaimer frees disk space that no workload needs: dead containers, or images that nothing
// uses.
type Reclaimer interface {
	Reclaim(ctx context.Context) error
}

// Config of a Manager.
type Config struct {
	// Thresholds are none where the node is not looked at.
	Thresholds []plan.Threshold
	// MaxGraceSeconds bounds the grace period where a soft threshold is met; negative is no
	// bound.
	MaxGraceSeconds int64
	// Transition is for how long a condition stays after it was observed last.
	Transition time.Duration
	Node       Node
	Stats      Stats
	Workloads  Workloads
	// Reclaimers are asked in this order before a workload is ended for disk space.
	Reclaimers []Reclaimer
	// Changed is called when the node's conditions have changed. It must not block.
	Changed func(conditions []corev1.NodeConditionType)
	// Warn writes a Warning event about the node.
	Warn func(reason, message string)
	// Evicted counts an eviction.
	Evicted func(plan.Signal)
	// StateFile keeps the node's conditions for the next process; "" keeps none.
	StateFile string
	Logger    logr.Logger

	// write replaces the state file; nil is statefile.Replace.
	write func(path string, data []byte) error
}

// Manager keeps the node from running out of memory, disk and process IDs.
type Manager struct {
	config Config

	// What follows belongs to the goroutine of Run.

	known plan.Pressure
	// said is what was logged last about signals that could not be read.
	said  string
	saved time.Time
	saver *saver
	// reclaim is under way, or nil.
	reclaim *reclaim

	mu         sync.Mutex
	conditions []corev1.NodeConditionType
}

// New returns a manager that knows the conditions of the process before it.
func New(config Config) *Manager {
	m := &Manager{config: config, saver: newSaver(config)}
	if m.Enabled() {
		m.restore(time.Now())
	}
	return m
}

// Enabled reports whether there is a threshold to look at.
func (m *Manager) Enabled() bool { return len(m.config.Thresholds) > 0 }

// Conditions are those that the node has now.
func (m *Manager) Conditions() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// Admit says why nothing of a pod that never ran is started now; nil if it may be.
func (m *Manager) Admit(pod *corev1.Pod) *plan.Refusal {
	return plan.AdmitUnderPressure(pod, m.Conditions())
}

// Run looks at the node until the context is done.
func (m *Manager) Run(ctx context.Context) error {
	if !m.Enabled() {
		return nil
	}
	if conditions := m.Conditions(); len(conditions) > 0 {
		m.config.Changed(conditions)
	}
	defer m.saver.start()()
	defer m.awaitReclaim()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := panics.Contain(m.config.Logger, "node pressure", func() error { return m.round(ctx) })
		if err != nil && ctx.Err() == nil {
			m.config.Logger.Error(err, "Failed to look at the node's pressure; retrying", "in", interval.String())
		}
		timer.Reset(interval)
	}
}

// round looks at the node once, and ends at most one workload.
func (m *Manager) round(ctx context.Context) error {
	observed, separate := m.observe(ctx)
	now := time.Now()
	known, urgent := m.known.Look(m.config.Thresholds, observed, now)
	m.known = known
	m.setConditions(known.Conditions(m.config.Transition, now))
	m.save(now)
	if len(urgent) == 0 {
		m.forgetEnded()
		return nil
	}
	threshold := urgent[0]
	m.config.Logger.Info("Attempting to reclaim", "signal", threshold.Signal)
	m.config.Warn(reasonThresholdMet, fmt.Sprintf(messageThresholdMet, threshold.Signal.Resource()))
	switch m.reclaimed(ctx, threshold.Signal, separate) {
	case reclaimEnough:
		m.config.Logger.Info("Reclaimed without ending a workload", "signal", threshold.Signal)
		return nil
	case reclaimUnderWay:
		m.config.Logger.Info("Dead containers and unused images are still being removed", "signal", threshold.Signal)
		return nil
	case reclaimTooLittle:
	}
	return m.evict(ctx, threshold, observed, separate)
}

// observe reads the signals. One that cannot be read is logged once, and counts as not short.
func (m *Manager) observe(ctx context.Context) (plan.Observations, bool) {
	observed, separate, err := m.config.Node.Observe(ctx)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != m.said && said != "" && ctx.Err() == nil {
		m.config.Logger.Info("Failed to read signals of node pressure; those without an observation are not looked at", "reason", said)
	}
	m.said = said
	return observed, separate
}

// evict ends the workload that ranks first and may be ended, and waits until it is gone.
func (m *Manager) evict(ctx context.Context, threshold plan.Threshold, observed plan.Observations, separate bool) error {
	candidates, err := m.candidates(ctx, threshold.Signal)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // what was asked of the node may be half an answer
	}
	for _, c := range plan.Rank(candidates, threshold.Signal, separate) {
		end := plan.DecidePressureEviction(plan.PressureEviction{
			Candidate: c, Threshold: threshold, Observed: observed, MaxGraceSeconds: m.config.MaxGraceSeconds,
		})
		if end == nil || !m.config.Workloads.Terminate(c.Pod.UID, *end) {
			continue
		}
		m.config.Logger.Info("Evicting a workload", "workload", types.NamespacedName{Namespace: c.Pod.Namespace, Name: c.Pod.Name},
			"uid", c.Pod.UID, "signal", threshold.Signal, "message", end.Message)
		m.config.Evicted(threshold.Signal)
		m.awaitEnd(ctx, c.Pod, end)
		return nil
	}
	m.config.Logger.Info("The node is under pressure, and no workload may be ended for it", "signal", threshold.Signal)
	return nil
}

// candidates are the workloads that may be ended, with what they use. Where that cannot be asked,
// none is ended.
func (m *Manager) candidates(ctx context.Context, s plan.Signal) ([]plan.Candidate, error) {
	pods := m.config.Workloads.Candidates()
	if len(pods) == 0 {
		return nil, nil
	}
	disk := s != plan.SignalMemoryAvailable && s != plan.SignalPIDAvailable
	uses, err := m.config.Stats.Uses(ctx, pods, disk)
	if err != nil {
		return nil, fmt.Errorf("measure what workloads use: %w", err)
	}
	candidates := make([]plan.Candidate, 0, len(pods))
	for _, pod := range pods {
		candidates = append(candidates, plan.Candidate{Pod: pod, Use: uses[pod.UID]})
	}
	return candidates, nil
}

// awaitEnd waits until a workload is gone: for its kills, with patience, and then for what it
// leaves. (kubelet pod_workers.go:killPodNow, eviction_manager.go:waitForPodsCleanup)
func (m *Manager) awaitEnd(ctx context.Context, pod *corev1.Pod, end *plan.Termination) {
	gone := time.Now().Add(plan.KillPatience(pod, end) + goneTimeout)
	ticker := time.NewTicker(goneInterval)
	defer ticker.Stop()
	for seen := false; ; {
		dead, released := m.config.Workloads.Ended(pod.UID)
		now := time.Now()
		if left := now.Add(goneTimeout); dead && !seen && left.Before(gone) {
			gone = left
		}
		seen = seen || dead
		if released || now.After(gone) {
			m.config.Logger.V(1).Info("Stopped waiting for an evicted workload", "uid", pod.UID, "gone", released)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// setConditions keeps the node's conditions, and says so where they are others.
func (m *Manager) setConditions(conditions []corev1.NodeConditionType) {
	m.mu.Lock()
	changed := !slices.Equal(m.conditions, conditions)
	m.conditions = conditions
	m.mu.Unlock()
	if changed {
		m.config.Logger.Info("The node's conditions of pressure have changed", "conditions", conditions)
		m.saved = time.Time{}
		m.config.Changed(conditions)
	}
}
