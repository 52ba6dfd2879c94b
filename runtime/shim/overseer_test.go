// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// fakeCRI is a runtime whose answers a test sets.
type fakeCRI struct {
	criClient
	// list is called before each list.
	list   func()
	events bool

	mu                      sync.Mutex
	pods                    []cri.Pod
	listErr, ready, network error
}

func (r *fakeCRI) ListPods(context.Context) ([]cri.Pod, error) {
	if r.list != nil {
		r.list()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods, r.listErr
}

func (r *fakeCRI) Healthy() bool { return r.events }

func (r *fakeCRI) Ready(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

func (r *fakeCRI) NetworkReady(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.network
}

// set changes answers while the overseer runs.
func (r *fakeCRI) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// fakeWorkers writes down what the overseer passes on.
type fakeWorkers struct {
	mu      sync.Mutex
	woken   []types.UID
	usable  podworker.Usable
	static  podworker.Usable
	present int
}

func (w *fakeWorkers) SetPresent(ids []podworker.Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = len(ids)
}

func (w *fakeWorkers) SetUsable(u podworker.Usable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usable = u
}

func (w *fakeWorkers) SetStaticUsable(u podworker.Usable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.static = u
}

func (w *fakeWorkers) Wake(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = append(w.woken, uid)
	return true
}

func (w *fakeWorkers) WakeAll() {}

// take returns who was woken since the last time.
func (w *fakeWorkers) take() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.woken
	w.woken = nil
	slices.Sort(woken)
	return woken
}

func (w *fakeWorkers) current() podworker.Usable {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usable
}

func (w *fakeWorkers) currentStatic() podworker.Usable {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.static
}

func newOverseer(t *testing.T, r *fakeCRI) (*overseer, *fakeWorkers) {
	t.Helper()
	pool := &fakeWorkers{}
	return overseerOf(newKeeper(t, 0), r, pool), pool
}

func overseerOf(f keeperFixture, r criClient, pool workers) *overseer {
	usable := &usability{pool: pool, events: f.events}
	return &overseer{
		runtime: r, pool: pool, events: f.events, usable: usable, progress: newProgress(),
		check: &clusterCheck{
			cluster: f.cluster, policy: &policyProbe{api: f.api}, orphans: f.orphanKeeper, usable: usable, progress: f.progress,
			lists: make(chan runtimeList, 1),
		},
		firstSeen: func(context.Context) error { return nil }, kicked: make(chan struct{}, 1),
	}
}

// runOverseer runs it, and what asks the API server, in the test's bubble until the test has ended.
func runOverseer(t *testing.T, o *overseer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	parts := []func(context.Context) error{o.run, o.check.run}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range parts {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// A list wakes the workers whose pods are new, changed or no longer there: the
// safety net for an event that never came.
func TestListsWakeWorkersOfChangedPods(t *testing.T) {
	pod := func(uid types.UID, containers ...string) cri.Pod {
		return cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Containers: containers}
	}
	o, pool := newOverseer(t, &fakeCRI{})
	for _, step := range []struct {
		name string
		pods []cri.Pod
		want []types.UID
	}{
		{"first seen", []cri.Pod{pod("a", "1"), pod("b", "1")}, []types.UID{"a", "b"}},
		{"unchanged", []cri.Pod{pod("a", "1"), pod("b", "1")}, nil},
		{"one changed", []cri.Pod{pod("a", "2", "1"), pod("b", "1")}, []types.UID{"a"}},
		{"one vanished", []cri.Pod{pod("a", "2", "1")}, []types.UID{"b"}},
		{"all vanished", nil, []types.UID{"a"}},
		{"nothing left", nil, nil},
	} {
		o.wakeChanged(step.pods)
		if got := pool.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s: woke %q, want %q", step.name, got, step.want)
		}
	}
}

// What the runtime says about itself is asked again and again, not only at first.
func TestRuntimeConditionsAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeCRI{events: true}
		o, pool := newOverseer(t, r)
		runOverseer(t, o)
		time.Sleep(time.Second)
		if got := pool.current(); !got.OK || o.networkError() != nil {
			t.Fatalf("usable %+v, network %v", got, o.networkError())
		}
		noNetwork, notReady := errors.New("cni plugin not initialized"), errors.New("runtime is shutting down")
		r.set(func() { r.network = noNetwork })
		time.Sleep(relistHealthy + time.Second)
		if got := o.networkError(); !errors.Is(got, noNetwork) {
			t.Errorf("network %v, want %v", got, noNetwork)
		}
		r.set(func() { r.network = nil })
		time.Sleep(2 * relistBlind)
		if got := o.networkError(); got != nil {
			t.Errorf("network %v after it came back", got)
		}
		r.set(func() { r.ready = notReady })
		time.Sleep(relistHealthy + time.Second)
		if got := pool.current(); got.OK || got.Reason != v1alpha1.ReasonRuntimeNotReady {
			t.Errorf("usable %+v, want it not to be", got)
		}
		r.set(func() { r.ready = nil })
		time.Sleep(2 * relistBlind)
		if got := pool.current(); !got.OK {
			t.Errorf("usable %+v after it came back", got)
		}
	})
}

// Liveness reflects the overseer's progress. A slow runtime is no reason to restart
// the shim, nor is one that does not answer; an overseer that is stuck, or panics each
// time, is one.
func TestLivenessReflectsTheOverseer(t *testing.T) {
	tests := map[string]struct {
		list      func(end <-chan struct{})
		listErr   error
		wantStuck bool
	}{
		"well":             {},
		"slow":             {list: func(<-chan struct{}) { time.Sleep(4 * time.Minute) }},
		"no answer":        {listErr: errors.New("connection refused")},
		"stuck":            {list: func(end <-chan struct{}) { <-end }, wantStuck: true},
		"each look panics": {list: func(<-chan struct{}) { panic("boom") }, wantStuck: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				r := &fakeCRI{listErr: tt.listErr}
				if tt.list != nil {
					r.list = func() { tt.list(end) }
				}
				o, _ := newOverseer(t, r)
				runOverseer(t, o)
				defer close(end)
				var stuck error
				for range 60 {
					time.Sleep(time.Minute)
					stuck = errors.Join(stuck, o.progress.check(nil))
				}
				if (stuck != nil) != tt.wantStuck {
					t.Errorf("in an hour: %v, want stuck %t", stuck, tt.wantStuck)
				}
			})
		})
	}
}

// Orphans that wait for a person, or for the API server, are looked at again soon.
func TestHeldOrphansAreLookedAtSoon(t *testing.T) {
	for orphans, want := range map[int]time.Duration{0: relistHealthy, 10: relistForeign} {
		f := newKeeper(t, orphans)
		check := overseerOf(f, &fakeCRI{}, &fakeWorkers{}).check
		if got := check.ask(t.Context(), runtimeList{f.runtime.pods, true}); got != want || f.holding() != (orphans > 0) {
			t.Errorf("%d orphans, held %t: looked at again after %v, want %v", orphans, f.holding(), got, want)
		}
	}
}

// A panic of one look ends neither the overseer nor the shim.
func TestOverseerSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeCRI{events: true}
		looks := 0
		r.list = func() {
			if looks++; looks == 1 {
				panic("boom")
			}
		}
		o, pool := newOverseer(t, r)
		runOverseer(t, o)
		time.Sleep(2 * relistForeign)
		if !pool.current().OK {
			t.Errorf("usable %+v after a panic", pool.current())
		}
	})
}

// Events of pods without a worker ask for a list. The first is served at once; a
// burst, such as the end of many workloads, does not list all pods for each.
func TestListsOfABurstOfEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := &countedLists{events: true}, newKeeper(t, 0)
		o := overseerOf(f, r, f.pool)
		runOverseer(t, o)
		time.Sleep(10 * time.Second)
		before := r.lists.Load()
		o.kick()
		time.Sleep(settleKick + time.Millisecond)
		if got := r.lists.Load() - before; got != 1 {
			t.Errorf("%d lists right after an event, want one", got)
		}
		before = r.lists.Load()
		for range 100 {
			o.kick()
			time.Sleep(10 * time.Millisecond)
		}
		if got := r.lists.Load() - before; got < 4 || got > 5 {
			t.Errorf("%d lists for a second of events, want one each %s", got, relistGap)
		}
	})
}
