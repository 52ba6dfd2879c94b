// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func named(name string) func(*template.Workload) {
	return func(nw *template.Workload) { nw.Name = name }
}

func TestWaitsFor(t *testing.T) {
	a := instance{uid: "a", order: 1, known: true}
	b := instance{uid: "b", order: 2, known: true}
	present := func(i instance) instance { i.present = true; return i }
	turn := func(i instance) instance { i.turn = true; return i }
	orphan := instance{uid: "o", present: true}
	static := instance{uid: "static-b", order: 2, known: true}
	tests := map[string]struct {
		me, other instance
		live      types.UID
		want      types.UID
		wantAsk   bool
	}{
		"the older goes first":                      {me: a, other: b},
		"the younger waits":                         {me: b, other: a, want: "a"},
		"what runs goes first":                      {me: a, other: present(b), want: "b"},
		"and does not wait for the older":           {me: present(b), other: a},
		"an orphan holds the start":                 {me: a, other: orphan, want: "o"},
		"an orphan holds one that runs":             {me: turn(present(a)), other: orphan, want: "o"},
		"one that has the turn keeps it":            {me: b, other: turn(a), want: "a"},
		"it does not wait for who waits":            {me: turn(b), other: a},
		"both half-started, the older, not asked":   {me: present(a), other: present(b), wantAsk: true},
		"both half-started, the younger, not asked": {me: present(b), other: present(a), want: "a", wantAsk: true},
		"the API has this one":                      {me: present(b), other: present(a), live: "b", want: "a"},
		"the API has the other":                     {me: present(a), other: present(b), live: "b", want: "b"},
		"half-started beside a static one":          {me: present(a), other: present(static), live: "a"},
		"half-started and static":                   {me: present(static), other: present(a), live: "static-b", want: "a"},
		"the API has neither":                       {me: present(a), other: present(b), live: "c", wantAsk: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ask := waitsFor(tt.me, []instance{tt.other}, tt.live)
			if got != tt.want || ask != tt.wantAsk {
				t.Errorf("waits for %q, ask %t, want %q, %t", got, ask, tt.want, tt.wantAsk)
			}
		})
	}
}

// A shim that restarts while a newer instance waits for an older one keeps the order,
// whatever the UIDs are.
func TestOrderOfInstancesOverARestart(t *testing.T) {
	for _, uids := range [][2]string{{"a-old", "b-new"}, {"z-old", "b-new"}} {
		t.Run(uids[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old, fresh := types.UID(uids[0]), types.UID(uids[1])
				n := newFakeNode(t)
				p := n.start(t)
				p.Update(workload(uids[0], named("w")))
				n.settle(time.Second)
				p.Update(workload(uids[1], named("w")))
				n.settle(time.Second)
				if st := n.published(fresh); st.Reason != reasonPreviousInstance {
					t.Fatalf("the new one does not wait: %+v", st)
				}
				m := restarted(t, n)
				q := m.start(t)
				q.SetPresent([]Identity{{UID: old, Namespace: "ns", Name: "w"}})
				m.settle(5 * time.Minute)
				m.mu.Lock()
				_, oldThere := m.pods[old]
				_, freshThere := m.pods[fresh]
				m.mu.Unlock()
				if !oldThere || freshThere {
					t.Errorf("old on the runtime: %t, new on the runtime: %t", oldThere, freshThere)
				}
				m.setAPI(false)
				q.Abandon(Identity{UID: old, Namespace: "ns", Name: "w"}, nil)
				m.settle(time.Minute)
				if len(m.pods) != 1 || m.pods[fresh] == nil {
					t.Errorf("pods %v, want the new one alone once the old one is gone", m.pods)
				}
			})
		})
	}
}

// An orphan that ends holds the start of the new instance until it is gone, although it
// gets its worker later.
func TestNewInstanceWaitsForAnOrphanThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.pods["old"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{ID: "c-old", Name: "c", SandboxID: "s", State: plan.ContainerRunning}}}
		n.killing = func(_ context.Context, r plan.KillRequest) error {
			time.Sleep(10 * time.Minute) // its recorded grace period
			n.kill(r)
			return nil
		}
		p := n.start(t)
		old := Identity{UID: "old", Namespace: "ns", Name: "w"}
		p.SetPresent([]Identity{old})
		p.Update(workload("new", named("w")))
		n.settle(time.Second)
		p.Abandon(old, template.Pod(workload("old", named("w"))))
		n.settle(9 * time.Minute)
		if n.did("start c image:1") {
			t.Error("the new instance was started beside the old one, which has a minute left")
		}
		n.settle(2 * time.Minute)
		if !n.did("start c image:1") {
			t.Errorf("not started when the old one was gone: %q", n.log())
		}
	})
}

// Two instances that both have something on the runtime do not wait for each other: the
// API decides which of them starts, once the other is gone.
func TestHalfStartedInstances(t *testing.T) {
	tests := map[string]struct {
		live    string
		apiDown bool
		want    types.UID
	}{
		"the API has the older":   {live: "a", want: "a"},
		"the API has the younger": {live: "b", want: "b"},
		"the API is away":         {live: "b", apiDown: true, want: "a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.has(workload(tt.live, named("w")))
				n.apiDown = tt.apiDown
				var ids []Identity
				for i, uid := range []types.UID{"a", "b"} {
					id := Identity{UID: uid, Namespace: "ns", Name: "w"}
					ids = append(ids, id)
					n.pods[uid] = &fakePod{sandbox: "s-" + string(uid)}
					cp := &Checkpoint{Identity: id, State: Syncing, BootID: "boot", Generation: 1, Order: int64(i + 1), Pod: template.Pod(workload(string(uid), named("w")))}
					if err := n.store.Save(cp); err != nil {
						t.Fatal(err)
					}
				}
				p := n.restore(t)
				p.SetPresent(ids)
				n.begin(t)
				n.settle(time.Minute)
				started := func(uid types.UID) bool {
					n.mu.Lock()
					defer n.mu.Unlock()
					return n.pods[uid] != nil && len(n.pods[uid].containers) > 0
				}
				loser := ids[0]
				if tt.want == "a" {
					loser = ids[1]
				}
				if started(loser.UID) || (tt.want == "b" && started("b")) {
					t.Errorf("started: a %t, b %t", started("a"), started("b"))
				}
				p.Abandon(loser, nil)
				n.settle(time.Minute)
				if !started(tt.want) {
					t.Errorf("%s was not started after the other was gone: %q", tt.want, n.log())
				}
			})
		})
	}
}
