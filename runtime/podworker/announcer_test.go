// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// publishing is a publisher whose writes can be watched and held.
type publishing struct {
	*fakeNode
	on func(*v1alpha1.NodeWorkloadStatus)
}

func (p *publishing) Publish(ctx context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error {
	if p.on != nil {
		p.on(st)
	}
	return p.fakeNode.Publish(ctx, id, st)
}

// withPublisher runs a pool with that publisher.
func withPublisher(t *testing.T, n *fakeNode, p *publishing) *Pool {
	t.Helper()
	pool := n.restore(t)
	pool.cfg.Publisher = p
	n.begin(t)
	return pool
}

// Kills while the API server is away are counted when they end. Their events come after
// the write, in order; of many only the newest, and the first says how many are missing.
func TestKillsWhileTheAPIIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		n := newFakeNode(t)
		n.restore(t)
		n.pool.cfg.Metrics = NewMetrics(reg)
		n.begin(t)
		p := n.pool
		p.Update(workload("a"))
		n.settle(time.Minute)
		n.setAPI(true)
		const kills = 500
		for i := range kills {
			p.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
				ID: fmt.Sprintf("kill-%032d", i), Container: "c", ContainerID: "x", Trigger: v1alpha1.TriggerLivenessProbe,
				Message: fmt.Sprint("Container c failed liveness probe, will be restarted; ", i), Phase: v1alpha1.KillPhaseDone,
				Outcome: v1alpha1.KillOutcomeForced, StartTime: metav1.NowMicro(),
			}})
			n.settle(time.Second)
		}
		if got := counted(t, reg, "managedworkload_shim_kills_total"); got != kills {
			t.Errorf("%v kills counted before the API answers, want %d", got, kills)
		}
		saved, err := n.store.Load()
		if err != nil || len(saved[0].Outbox.Notices) != maxNotices {
			t.Errorf("the checkpoint holds %d events, error %v, want %d", len(saved[0].Outbox.Notices), err, maxNotices)
		}
		n.setAPI(false)
		n.settle(10 * time.Minute)
		events := slices.DeleteFunc(n.log(), func(c string) bool { return !strings.HasPrefix(c, "event Killed") })
		if len(events) != maxNotices || !strings.Contains(events[0], "(450 earlier events were dropped") {
			t.Fatalf("%d events, the first %q", len(events), events[0])
		}
		for i, event := range events {
			if !strings.Contains(event, fmt.Sprint("; ", kills-maxNotices+i)) && !strings.Contains(event, fmt.Sprintf("(%d)", kills-maxNotices+i)) {
				t.Errorf("event %d is %q", i, event)
			}
		}
		if st := n.published("a"); st.KillCount != kills || st.Kills[0].Sequence != kills {
			t.Errorf("kill count %d, latest sequence %d", st.KillCount, st.Kills[0].Sequence)
		}
	})
}

// counted is the sum of a counter.
func counted(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// While the API server is away it is asked less and less often.
func TestPublishBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		tries := 0
		p := withPublisher(t, n, &publishing{n, func(*v1alpha1.NodeWorkloadStatus) { tries++ }})
		n.setAPI(true)
		p.Update(workload("a"))
		n.settle(10 * time.Minute)
		if tries < 10 || tries > 30 {
			t.Errorf("%d tries in 10 minutes, want one each 30 s to 45 s after the first few", tries)
		}
	})
}

// An API server that says when to come back is asked then, not less and less often.
func TestPublishWaitsAsTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		tries := 0
		overloaded := &answering{fakeNode: n, answer: func(context.Context) error {
			tries++
			return fmt.Errorf("update status: %w", apierrors.NewTooManyRequests("too many requests", 2))
		}}
		p := n.restore(t)
		p.cfg.Publisher = overloaded
		n.begin(t)
		p.Update(workload("a"))
		n.settle(10 * time.Minute)
		if tries < 150 || tries > 310 {
			t.Errorf("%d tries in 10 minutes, want one each 2 s to 3 s", tries)
		}
	})
}

// An API server that needs longer than a try may take gets more time with each: a write that is
// given up is work for nothing.
func TestSlowWriteGetsMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		var waits []time.Duration
		slow := &answering{fakeNode: n, answer: func(ctx context.Context) error {
			if deadline, ok := ctx.Deadline(); ok {
				waits = append(waits, time.Until(deadline))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(35 * time.Second):
				return nil
			}
		}}
		p := n.restore(t)
		p.cfg.Publisher = slow
		n.begin(t)
		p.Update(workload("a"))
		n.settle(3 * time.Minute)
		if want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}; len(waits) < 3 || !slices.Equal(waits[:3], want) {
			t.Errorf("tries may take %v, want %v at first", waits, want)
		}
		if st := n.published("a"); st.Summary != "Running" {
			t.Errorf("status %+v is written", st)
		}
	})
}

// answering is a publisher that answers as a test says before it writes.
type answering struct {
	*fakeNode
	answer func(context.Context) error
}

func (a *answering) Publish(ctx context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error {
	if err := a.answer(ctx); err != nil {
		return err
	}
	return a.fakeNode.Publish(ctx, id, st)
}

// While a workload starts its steps are gathered, the longer the more time a write takes;
// not while no checkpoint has them.
func TestGather(t *testing.T) {
	tests := map[string]struct {
		took  time.Duration
		least int
		most  int
		disk  error
	}{
		"a quick API server":  {took: time.Millisecond, least: 18, most: 21},
		"a slower API server": {took: 100 * time.Millisecond, least: 8, most: 11},
		"a busy API server":   {took: 5 * time.Second, least: 1, most: 3},
		"a disk that is full": {took: time.Millisecond, least: 90, most: 110, disk: errors.New("no space left on device")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.store = &badDisk{Store: n.store, err: tt.disk}
				writes := 0
				p := withPublisher(t, n, &publishing{n, func(st *v1alpha1.NodeWorkloadStatus) {
					if st.Phase == corev1.PodPending {
						writes++
						time.Sleep(tt.took)
					}
				}})
				// It stays pending, and there is something new each tenth of a second.
				n.syncing = func(ctx context.Context, _ plan.SyncRequest) plan.SyncOutcome {
					<-ctx.Done()
					return plan.SyncOutcome{}
				}
				p.Update(workload("a"))
				synctest.Wait()
				for i := range 100 {
					p.workers["a"].mem.setKillError(fmt.Sprint("try ", i))
					p.workers["a"].mem.report(p.workers["a"].mem.peek(), report{pod: corev1.PodStatus{Phase: corev1.PodPending}}, nil, plan.Moment{Wall: time.Now()})
					signal(p.workers["a"].news)
					n.settle(100 * time.Millisecond)
				}
				if writes < tt.least || writes > tt.most {
					t.Errorf("%d writes in 10 s, want %d to %d", writes, tt.least, tt.most)
				}
			})
		})
	}
}

// A panic while publishing is a failure like another: the process and the workload
// continue, and the status is written later.
func TestPublishPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		panics := 2
		p := withPublisher(t, n, &publishing{n, func(*v1alpha1.NodeWorkloadStatus) {
			if panics--; panics >= 0 {
				panic("a bug")
			}
		}})
		p.Update(workload("a"))
		n.settle(time.Minute)
		if st := n.published("a"); st.Summary != "Running" || panics >= 0 {
			t.Errorf("status %q, %d panics left", st.Summary, panics)
		}
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		if !n.did("release a") {
			t.Error("not released")
		}
	})
}

// The finalizer stays while the last status is being written.
func TestReleaseWaitsForAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		var hang chan struct{}
		publisher := &publishing{n, func(st *v1alpha1.NodeWorkloadStatus) {
			n.mu.Lock()
			wait := hang
			n.mu.Unlock()
			if wait != nil && st.Phase == corev1.PodSucceeded {
				<-wait
			}
		}}
		p := withPublisher(t, n, publisher)
		p.Update(workload("a"))
		n.settle(time.Minute)
		n.mu.Lock()
		hang = make(chan struct{})
		n.mu.Unlock()
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		if n.did("release a") {
			t.Fatal("released while the status was being written")
		}
		close(hang)
		n.settle(time.Minute)
		if st := n.published("a"); !n.did("release a") || len(st.Kills) != 1 || st.Kills[0].Phase != v1alpha1.KillPhaseDone {
			t.Errorf("released %t, kills %+v", n.did("release a"), st.Kills)
		}
	})
}
