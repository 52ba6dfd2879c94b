// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A static workload that comes back after its end runs at once: no API has an old version of it.
func TestAStaticWorkloadComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uid = v1alpha1.StaticUIDPrefix + "a"
		n := newFakeNode(t)
		p := n.start(t)
		for range 2 {
			p.Update(workload(uid))
			n.settle(time.Second)
			if !p.Ran(uid) {
				t.Fatal("it does not run")
			}
			p.Update(workload(uid, deleted(nil)))
			n.settle(2 * time.Second)
			if p.Has(uid) {
				t.Fatal("it has not ended")
			}
		}
	})
}

// What keeps the API server's workloads from starting, such as policies that are not enforced there, does not
// concern those from files: they restart.
func TestAStaticWorkloadRestartsWhilePoliciesAreNotEnforced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const file, api = v1alpha1.StaticUIDPrefix + "a", "b"
		n := newFakeNode(t)
		p := n.start(t)
		for _, uid := range []types.UID{file, api} {
			p.Update(workload(string(uid)))
		}
		n.settle(time.Second)
		p.SetUsable(Usable{Reason: v1alpha1.ReasonPolicyNotEnforced})
		for uid, want := range map[types.UID]int32{file: 1, api: 0} {
			n.exit(uid, 1)
			p.Wake(uid)
			n.settle(time.Minute)
			if got := n.published(uid).ContainerStatuses[0].RestartCount; got != want {
				t.Errorf("%s: restarted %d times, want %d", uid, got, want)
			}
		}
	})
}

// An object whose end is over here gets no worker again by an old version of it,
// unless the end was that of something the API was thought not to have.
func TestOldVersionAfterTheEnd(t *testing.T) {
	gone := func(n *fakeNode, p *Pool) {
		n.mu.Lock()
		n.gone["a"] = true
		n.mu.Unlock()
		p.Abandon(Identity{UID: "a", Namespace: "ns", Name: "a"}, nil)
	}
	tests := map[string]struct {
		end, again func(*fakeNode, *Pool)
		wantWorker bool
	}{
		"before its deletion": {
			end:   func(_ *fakeNode, p *Pool) { p.Update(workload("a", deleted(nil))) },
			again: func(_ *fakeNode, p *Pool) { p.Update(workload("a")) },
		},
		"of its deletion": {
			end:   func(_ *fakeNode, p *Pool) { p.Update(workload("a", deleted(nil))) },
			again: func(_ *fakeNode, p *Pool) { p.Update(workload("a", deleted(nil), generation(3))) },
		},
		"from a list": {
			end:   func(_ *fakeNode, p *Pool) { p.Update(workload("a", deleted(nil))) },
			again: func(_ *fakeNode, p *Pool) { p.Adopt(workload("a")) },
		},
		"of another instance": {
			end:        func(_ *fakeNode, p *Pool) { p.Update(workload("a", deleted(nil))) },
			again:      func(_ *fakeNode, p *Pool) { p.Update(workload("b")) },
			wantWorker: true,
		},
		"one that was away is there again": {
			end:        gone,
			again:      func(_ *fakeNode, p *Pool) { p.Update(workload("a")) },
			wantWorker: true,
		},
		"one that was away is in a list again": {
			end:        gone,
			again:      func(_ *fakeNode, p *Pool) { p.Adopt(workload("a")) },
			wantWorker: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				p.Update(workload("a"))
				n.settle(time.Second)
				tt.end(n, p)
				n.settle(time.Minute)
				if left := p.Known(); len(left) != 0 {
					t.Fatalf("workers %+v after the end", left)
				}
				tt.again(n, p)
				n.settle(time.Second)
				if got := len(p.Known()) == 1; got != tt.wantWorker {
					t.Errorf("worker: %t, want %t", got, tt.wantWorker)
				}
			})
		})
	}
}

// What is remembered of released objects is bounded.
func TestReleasedIsBounded(t *testing.T) {
	p := New(Config{})
	for i := range maxReleased + 5 {
		w := newWorker(p, Identity{UID: workload(string(rune('a' + i))).UID}, int64(i))
		p.forget(w)
	}
	if len(p.released) != 5 {
		t.Errorf("%d objects are remembered, want the 5 since the bound", len(p.released))
	}
}

// A workload that waits for what only the runtime knows of its name starts as soon
// as that is gone.
func TestWaitsForWhatTheRuntimeHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.SetPresent([]Identity{{UID: "old", Namespace: "ns", Name: "a"}})
		p.Update(workload("a"))
		n.settle(time.Second)
		if st := n.published("a"); st.Reason != reasonPreviousInstance {
			t.Fatalf("reason %q, want it to wait", st.Reason)
		}
		p.SetPresent(nil)
		n.settle(time.Second)
		if st := n.published("a"); st.Summary != "Running" {
			t.Errorf("it is %q", st.Summary)
		}
	})
}

// A list may be older than what a worker was handed since: it changes nothing.
func TestAdoptIsForNewOnes(t *testing.T) {
	p := New(Config{})
	p.Update(workload("a", generation(2), image("image:2")))
	p.Adopt(workload("a"))
	if pod := p.Known()[0].Pod; pod.Spec.Containers[0].Image != "image:2" {
		t.Errorf("image %q by an old list", pod.Spec.Containers[0].Image)
	}
}

// A version from before the deletion does not take its grace period away.
func TestDeletionIsNotTakenBack(t *testing.T) {
	p := New(Config{})
	p.Update(workload("a", deleted(ptr.To[int64](7))))
	p.Update(workload("a"))
	known := p.Known()[0]
	if !known.Deleting || known.Pod.DeletionTimestamp == nil || ptr.Deref(known.Pod.DeletionGracePeriodSeconds, -1) != 7 {
		t.Errorf("deleting %t, pod %+v", known.Deleting, known.Pod.ObjectMeta)
	}
}

// A workload that the checkpoint knows as being deleted, and that the API does not
// have any more, continues as its termination, and is announced only once.
func TestDeletedIsGoneAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.apiDown = true
		n.mu.Unlock()
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Second)

		m := restarted(t, n)
		again := m.start(t)
		if known := again.Known()[0]; !known.Deleting || known.Gone {
			t.Fatalf("restored %+v", known)
		}
		m.mu.Lock()
		m.gone["a"] = true
		m.mu.Unlock()
		again.Abandon(Identity{UID: "a", Namespace: "ns", Name: "a"}, nil)
		if known := again.Known()[0]; !known.Gone {
			t.Errorf("not gone: %+v", known)
		}
		m.settle(time.Minute)
		if left := again.Known(); len(left) != 0 {
			t.Errorf("workers %+v", left)
		}
		for _, k := range m.killed {
			if k.Trigger != v1alpha1.TriggerTermination {
				t.Errorf("killed as %s", k.Trigger)
			}
		}
	})
}

// A worker that ended in the proper way while others found its object gone is not
// made again: nothing is left to end.
func TestAbandonOfWhatIsNotThere(t *testing.T) {
	p := New(Config{})
	p.Abandon(Identity{UID: "a", Namespace: "ns", Name: "a"}, nil)
	if got := p.Known(); len(got) != 0 {
		t.Errorf("workers %+v", got)
	}
}
