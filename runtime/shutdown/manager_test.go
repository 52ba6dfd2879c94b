// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// node is a node with its logind and workloads, and a journal of what happens.
type node struct {
	mu      sync.Mutex
	began   time.Time
	journal []string
	// takes is for how long a workload needs to end, by its UID.
	takes  map[types.UID]time.Duration
	active []*corev1.Pod

	preparing, away bool
	events          chan Event
	// stop ends the shim.
	stop func()
}

func (n *node) note(format string, args ...any) {
	n.journal = append(n.journal, fmt.Sprintf("%gs ", time.Since(n.began).Seconds())+fmt.Sprintf(format, args...))
}

// log returns what happened since the last call.
func (n *node) log() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.journal = nil }()
	return n.journal
}

// Active implements Workloads.
func (n *node) Active() []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.active)
}

// Terminate implements Workloads.
func (n *node) Terminate(uid types.UID, t plan.Termination) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("end %s in %ds", uid, *t.Override)
	time.AfterFunc(n.takes[uid], func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.active = slices.DeleteFunc(n.active, func(p *corev1.Pod) bool { return p.UID == uid })
	})
	return true
}

// session is a connection to the node's logind.
type session struct{ *node }

func (n *node) dial(context.Context) (Logind, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, errors.New("no bus")
	}
	n.events = make(chan Event)
	return session{n}, nil
}

func (s session) InhibitDelay(context.Context) (time.Duration, error) { return time.Hour, nil }
func (s session) Reload(context.Context) error                        { return errors.New("not asked for") }
func (s session) Close() error                                        { return nil }
func (s session) Events() <-chan Event                                { return s.events }

func (s session) Preparing(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.preparing, nil
}

func (s session) Inhibit(context.Context) (io.Closer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("lock")
	return lock(s), nil
}

type lock struct{ *node }

func (l lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("release")
	return nil
}

// prepare is logind's word that the node shuts down, or not.
func (n *node) prepare(shutdown bool) {
	n.mu.Lock()
	n.preparing = shutdown
	events := n.events
	n.mu.Unlock()
	events <- map[bool]Event{true: Shutdown, false: Cancelled}[shutdown]
}

// lose ends the connection.
func (n *node) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.events)
}

func workload(uid string, priority int32, grace int64) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.UID, pod.Spec.Priority, pod.Spec.TerminationGracePeriodSeconds = types.UID(uid), &priority, &grace
	return pod
}

// run starts a manager of three groups: low (priority 0, 20 s), high (100, 10 s) and top
// (1000, 5 s).
func run(t *testing.T, edit func(*node)) (*node, *Manager) {
	t.Helper()
	n := &node{
		began: time.Now(), takes: map[types.UID]time.Duration{"low": 2950 * time.Millisecond, "high": 1950 * time.Millisecond}, // shortly before a look
		active: []*corev1.Pod{workload("high", 100, 30), workload("low", 0, 7)},
	}
	if edit != nil {
		edit(n)
	}
	m := New(Config{
		Periods:   []plan.ShutdownPeriod{{Priority: 1000, Seconds: 5}, {Priority: 0, Seconds: 20}, {Priority: 100, Seconds: 10}},
		Workloads: n, Dial: n.dial, HostRoot: hostfs.Root(t.TempDir()), Log: logr.Discard(),
		Changed: func() {},
		Event: func(reason, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.note("%s: %s", reason, message)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	synctest.Wait()
	return n, m
}

func (n *node) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.log()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func refuses(m *Manager) bool { return m.Admit(&corev1.Pod{}) != nil }

// A shutdown ends the workloads group by group, the lowest priority first, and waits for each
// before the lock is released.
func TestGroupsEndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := run(t, nil)
		n.want(t, "at the start", "0s lock")
		if refuses(m) || !m.Until().IsZero() {
			t.Error("pods are refused before a shutdown")
		}
		n.prepare(true)
		synctest.Wait()
		want := plan.Refusal{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."}
		if got := m.Admit(&corev1.Pod{}); got == nil || *got != want {
			t.Errorf("a pod is admitted during a shutdown: %+v", got)
		}
		if got := time.Until(m.Until()); got != 35*time.Second {
			t.Errorf("the shutdown is to take %v, want the sum of all periods", got)
		}
		time.Sleep(time.Minute)
		n.want(t, "a shutdown",
			"0s NodeShutdown: Shutdown manager detected shutdown event",
			"0s end low in 7s", "3s end high in 10s", "5s release")
		if !refuses(m) {
			t.Error("pods are admitted before the shutdown was cancelled")
		}
	})
}

// A workload that does not end holds its group up for as long as the group has.
func TestGroupThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := run(t, func(n *node) { n.takes["low"] = time.Hour })
		n.prepare(true)
		time.Sleep(time.Minute)
		n.want(t, "a shutdown", "0s lock", "0s NodeShutdown: Shutdown manager detected shutdown event",
			"0s end low in 7s", "20s end high in 10s", "22s release")
	})
}

// A shutdown that is cancelled ends no further group, holds the next one up and admits again.
func TestCancelledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := run(t, nil)
		n.prepare(true)
		time.Sleep(time.Second)
		n.prepare(false)
		time.Sleep(time.Minute)
		n.want(t, "a cancelled shutdown", "0s lock", "0s NodeShutdown: Shutdown manager detected shutdown event",
			"0s end low in 7s", "1s NodeShutdown: Shutdown manager detected shutdown cancellation", "1s lock", "1s release")
		if refuses(m) {
			t.Error("pods are refused after the shutdown was cancelled")
		}
		n.prepare(true)
		time.Sleep(time.Minute)
		n.want(t, "the next one", "61s NodeShutdown: Shutdown manager detected shutdown event", "61s end high in 10s", "63s release")
	})
}

// A connection that is lost ends nothing, and cancels nothing; what was missed meanwhile counts.
func TestLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := run(t, nil)
		n.lose()
		time.Sleep(time.Minute)
		n.want(t, "after it was lost", "0s lock", "1s lock", "1s release")
		if refuses(m) {
			t.Error("pods are refused without a connection")
		}
		n.mu.Lock()
		n.preparing = true
		n.mu.Unlock()
		n.lose()
		time.Sleep(2 * time.Second)
		n.mu.Lock()
		n.away = true
		n.mu.Unlock()
		n.lose()
		time.Sleep(time.Minute)
		n.want(t, "a shutdown that began meanwhile", "61s NodeShutdown: Shutdown manager detected shutdown event",
			"61s end low in 7s", "64s end high in 10s", "66s release")
	})
}

// A shim that starts while the node shuts down refuses what is new and ends the rest.
func TestStartDuringAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := run(t, func(n *node) { n.preparing = true })
		if !refuses(m) {
			t.Error("pods are admitted during a shutdown")
		}
		time.Sleep(time.Minute)
		n.want(t, "a shutdown", "0s NodeShutdown: Shutdown manager detected shutdown event", "0s end low in 7s", "3s end high in 10s")
	})
}

// The end of the shim ends no further group.
func TestEndOfTheShim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := run(t, nil)
		n.prepare(true)
		time.Sleep(time.Second)
		n.stop()
		time.Sleep(time.Minute)
		n.want(t, "a shim that ends", "0s lock", "0s NodeShutdown: Shutdown manager detected shutdown event", "0s end low in 7s", "1s release")
	})
}

// A shim that is asked to end during a shutdown ends when the workloads have ended; at other
// times at once.
func TestShimThatEndsDuringAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := run(t, nil)
		ends := func() time.Duration {
			asked, ask := context.WithCancel(t.Context())
			ctx, cancel := m.Outlast(asked)
			defer cancel()
			began := time.Now()
			ask()
			<-ctx.Done()
			return time.Since(began)
		}
		if took := ends(); took != 0 {
			t.Errorf("without a shutdown the shim ended after %v", took)
		}
		n.prepare(true)
		synctest.Wait()
		if took := ends(); took != 5*time.Second {
			t.Errorf("the shim ended after %v, want when the workloads had ended", took)
		}
	})
}
