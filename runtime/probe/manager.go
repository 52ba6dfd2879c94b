// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Execer runs a command in a container. A command that is out of time is a gRPC
// status DeadlineExceeded.
type Execer interface {
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
}

// Events records events about a pod; fieldPath names the container.
type Events interface {
	Event(pod *corev1.Pod, fieldPath, eventtype, reason, message string)
}

// Manager owns the workers of all pods. It is safe for concurrent use.
type Manager struct {
	ctx      context.Context // the workers' own, cancelled by Close
	cancel   context.CancelFunc
	logger   logr.Logger
	prober   prober
	events   Events
	onChange func(podUID types.UID)
	started  time.Time
	workers  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	pods   map[types.UID]*podState
}

// NewManager makes a manager whose workers live until ctx ends or Close is called.
// onChange is called without a lock when a verdict has changed; it must not block.
// startedAt is when the agent started.
func NewManager(ctx context.Context, exec Execer, events Events, onChange func(podUID types.UID), startedAt time.Time) *Manager {
	return newManager(ctx, newNodeProber(exec), events, onChange, startedAt)
}

func newManager(ctx context.Context, p prober, events Events, onChange func(podUID types.UID), startedAt time.Time) *Manager {
	logger := logr.FromContextOrDiscard(ctx)
	ctx, cancel := context.WithCancel(ctx)
	return &Manager{
		ctx:      ctx,
		cancel:   cancel,
		logger:   logger.WithName("probe"),
		prober:   p,
		events:   events,
		onChange: onChange,
		started:  startedAt,
		pods:     map[types.UID]*podState{},
	}
}

// Close ends all workers and waits for them. Probes that run are cancelled.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.workers.Wait()
}

// Update makes the workers of a pod fit its current template and containers. A
// worker is made before its container starts, and ticks from then: call it in each
// sync before the containers are started, and after each change of what was
// observed. previous is the status published last; it shows which containers had
// started already when the agent was restarted.
func (m *Manager) Update(pod *corev1.Pod, observed *plan.PodStatus, previous *corev1.PodStatus) {
	if m.update(pod, observed, previous) {
		m.onChange(pod.UID)
	}
}

func (m *Manager) update(pod *corev1.Pod, observed *plan.PodStatus, previous *corev1.PodStatus) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	state := m.pods[pod.UID]
	if state == nil {
		state = newPodState(m, pod.UID)
		m.pods[pod.UID] = state
	}
	return state.update(pod, observed, previous)
}

// StopLivenessAndStartup ends what could kill a main container of a pod that
// terminates. Readiness and sidecars are still probed.
// (prober_manager.go:StopLivenessAndStartup)
func (m *Manager) StopLivenessAndStartup(podUID types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.pods[podUID]; state != nil {
		state.terminate()
	}
}

// Remove ends all workers of a pod and forgets their verdicts.
func (m *Manager) Remove(podUID types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.pods[podUID]; state != nil {
		for _, w := range state.workers {
			w.stop()
		}
		delete(m.pods, podUID)
	}
}

// Results are the verdicts about a pod's containers by container ID.
func (m *Manager) Results(podUID types.UID) map[string]plan.ProbeResults {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.pods[podUID]
	if state == nil {
		return nil
	}
	out := make(map[string]plan.ProbeResults, len(state.results))
	for id, r := range state.results {
		out[id] = *r
	}
	return out
}

// LastFailure is why the probe of a kill's trigger failed last, such as "3x, HTTP
// 503"; empty when the trigger is no probe's, or the probe has not failed.
func (m *Manager) LastFailure(podUID types.UID, containerID string, trigger v1alpha1.KillTrigger) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.pods[podUID]
	if state == nil {
		return ""
	}
	f := state.failures[containerID]
	if f == nil || f.kind != killedBy[trigger] {
		return ""
	}
	return fmt.Sprintf("%dx, %s", f.count, f.message)
}

// killedBy is the kind of probe that asks for a kill with that trigger.
var killedBy = map[v1alpha1.KillTrigger]kind{
	v1alpha1.TriggerLivenessProbe: liveness,
	v1alpha1.TriggerStartupProbe:  startup,
}
