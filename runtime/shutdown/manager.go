// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Workloads are those of the node.
type Workloads interface {
	// Active are the pods of which something may run.
	Active() []*corev1.Pod
	// Terminate ends one, and returns at once. It is false where there is none.
	Terminate(uid types.UID, t plan.Termination) bool
}

// Words of the kubelet's events about its Node. (kubelet nodeshutdown_manager_linux.go:start)
const (
	eventReason   = "NodeShutdown"
	eventShutdown = "Shutdown manager detected shutdown event"
	eventCanceled = "Shutdown manager detected shutdown cancellation"
)

// Config is what a Manager needs.
type Config struct {
	// Periods are the groups of a shutdown; there is one at least.
	Periods   []plan.ShutdownPeriod
	Workloads Workloads
	// Dial connects to logind.
	Dial func(context.Context) (Logind, error)
	// HostRoot is where logind's configuration is.
	HostRoot hostfs.Root
	// Changed is called when a shutdown begins or is cancelled. It must not block.
	Changed func()
	// Event writes an event about the Node.
	Event func(reason, message string)
	Log   logr.Logger
}

// Manager watches for the node's shutdown and ends its workloads.
type Manager struct {
	cfg Config

	mu sync.Mutex
	// until is when the shutdown that is under way will have ended the workloads; zero
	// without one.
	until time.Time
	// lock holds the shutdown up, nil without one.
	lock io.Closer
	// ending ends the workloads, nil while nothing does.
	ending *ending
}

// ending is a goroutine that ends the workloads.
type ending struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a manager, which does nothing before Run. One that is nil never shuts down.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// Outlast returns a context that ends with ctx, but not before workloads that are being ended
// have ended: the kubelet ends the shim's own Pod during a shutdown, too.
func (m *Manager) Outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	if m == nil {
		return context.WithCancel(ctx)
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = panics.Contain(m.cfg.Log, "shutdown", func() error { // which logs it
			m.awaitEnd()
			return nil
		})
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// awaitEnd waits for the end of the workloads that are being ended.
func (m *Manager) awaitEnd() {
	m.mu.Lock()
	e := m.ending
	m.mu.Unlock()
	if e != nil {
		<-e.done
	}
}

// Admit refuses every pod while the node shuts down.
func (m *Manager) Admit(*corev1.Pod) *plan.Refusal {
	if m.Until().IsZero() {
		return nil
	}
	return plan.RefuseAtShutdown()
}

// Until is when the shutdown that is under way will have ended the workloads, by the wall
// clock; the zero time without one.
func (m *Manager) Until() time.Time {
	if m == nil {
		return time.Time{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// begin refuses what is new and ends the workloads, once for each shutdown. ctx ends what it
// starts.
func (m *Manager) begin(ctx context.Context) {
	if !m.announce() {
		return
	}
	m.cfg.Log.Info("The node shuts down: ending the workloads")
	m.cfg.Event(eventReason, eventShutdown)
	m.cfg.Changed()
	ctx, cancel := context.WithCancel(ctx)
	e := &ending{cancel: cancel, done: make(chan struct{})}
	m.mu.Lock()
	m.ending = e
	m.mu.Unlock()
	go func() {
		defer close(e.done)
		_ = panics.Contain(m.cfg.Log, "shutdown", func() error { // which logs it
			m.end(ctx)
			return nil
		})
	}()
}

// announce notes that the node shuts down, and reports whether that is news.
func (m *Manager) announce() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.until.IsZero() {
		return false
	}
	m.until = time.Now().Add(plan.ShutdownTime(m.cfg.Periods))
	return true
}

// stop ends no further workload, and waits until nothing does.
func (m *Manager) stop() {
	m.mu.Lock()
	e := m.ending
	m.ending = nil
	m.mu.Unlock()
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// cancelled admits pods again.
func (m *Manager) cancelled() {
	m.stop()
	m.mu.Lock()
	was := !m.until.IsZero()
	m.until = time.Time{}
	m.mu.Unlock()
	if was {
		m.cfg.Log.Info("The shutdown of the node was cancelled")
		m.cfg.Event(eventReason, eventCanceled)
		m.cfg.Changed()
	}
}

// hold takes a lock in place of the one before, or releases that.
func (m *Manager) hold(lock io.Closer) {
	m.mu.Lock()
	before := m.lock
	m.lock = lock
	m.mu.Unlock()
	if before == nil {
		return
	}
	if err := before.Close(); err != nil {
		m.cfg.Log.Error(err, "Failed to release the inhibitor lock")
	}
}
