// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// publications are all statuses that were published, in order.
type publications struct {
	Publisher
	mu   sync.Mutex
	list []v1alpha1.NodeWorkloadStatus
}

func (p *publications) Publish(ctx context.Context, id Identity, st *v1alpha1.NodeWorkloadStatus) error {
	p.mu.Lock()
	p.list = append(p.list, *st.DeepCopy())
	p.mu.Unlock()
	return p.Publisher.Publish(ctx, id, st)
}

// since returns those after the first n.
func (p *publications) since(n int) []v1alpha1.NodeWorkloadStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[n:]
}

// says gives verdicts about containers by their ID.
func (n *fakeNode) says(verdicts map[string]plan.ProbeResults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verdicts = verdicts
}

// readyWith returns the instance with which a status says that the workload is ready, "" for none.
func readyWith(st *v1alpha1.NodeWorkloadStatus) string {
	_, id, _ := strings.Cut(st.ContainerStatuses[0].ContainerID, "://")
	c := &st.ContainerStatuses[0]
	if c.Ready || c.Started != nil && *c.Started || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) || st.Ready == "1/1" {
		return id
	}
	return ""
}

func startupProbe(nw *template.Workload) {
	nw.Template.Spec.Containers[0].StartupProbe = &corev1.Probe{}
}

// However an instance is replaced: nothing that is published says that the next one has started or
// is ready, and no request counts it as restarted, before its own startup probe has passed.
func TestNextInstanceStartsAnew(t *testing.T) {
	passed := plan.ProbeResults{Startup: plan.ProbeSuccess}
	tests := map[string]func(n *fakeNode, p *Pool){
		"a change": func(_ *fakeNode, p *Pool) { p.Update(workload("a", generation(2), startupProbe, image("image:2"))) },
		"a liveness probe": func(n *fakeNode, p *Pool) {
			n.says(map[string]plan.ProbeResults{"c-1": {Startup: plan.ProbeSuccess, Liveness: plan.ProbeFailure}})
			p.Wake("a")
		},
		"a request": func(_ *fakeNode, p *Pool) {
			p.Update(workload("a", generation(2), startupProbe, func(nw *template.Workload) {
				nw.Spec.Requests = []v1alpha1.NodeRequest{{ID: "r", Name: "r", Action: v1alpha1.RequestRestart}}
			}))
		},
		"its exit": func(n *fakeNode, p *Pool) {
			n.exit("a", 1)
			p.Wake("a")
		},
	}
	for name, replace := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				seen := &publications{Publisher: n}
				p := n.restoreWith(t, func(c *Config) { c.Publisher = seen })
				n.begin(t)
				p.Update(workload("a", startupProbe))
				n.settle(time.Second)
				n.says(map[string]plan.ProbeResults{"c-1": passed})
				p.Wake("a")
				n.settle(time.Minute)
				if st := n.published("a"); readyWith(&st) != "c-1" {
					t.Fatalf("%+v, want it ready", st.ContainerStatuses)
				}
				before := len(seen.since(0))
				replace(n, p)
				n.settle(10 * time.Minute)
				for _, st := range seen.since(before) {
					if id := readyWith(&st); id != "" && id != "c-1" {
						t.Errorf("%s, %s: it is said to have started, or to be ready, before its startup probe has passed", id, st.Summary)
					}
					for _, r := range st.Requests {
						if r.Phase != v1alpha1.RequestInProgress {
							t.Errorf("the request is %s before the startup probe has passed", r.Phase)
						}
					}
				}
				n.says(map[string]plan.ProbeResults{"c-2": passed})
				p.Wake("a")
				n.settle(time.Minute)
				if st := n.published("a"); readyWith(&st) != "c-2" {
					t.Errorf("%s, want the new instance ready", st.Summary)
				}
			})
		})
	}
}

// What an earlier process reported is not said again by one that has not looked: the containers may
// have ended. After a boot none of them runs, whether the runtime can be asked or not.
func TestRestartedShimSaysWhatItSees(t *testing.T) {
	tests := map[string]struct {
		boot   string
		exits  bool
		usable Usable
		want   string
	}{
		"it runs":                     {boot: "boot", usable: Usable{OK: true}, want: "c-1"},
		"it has ended":                {boot: "boot", exits: true, usable: Usable{OK: true}},
		"the node was booted":         {boot: "next", exits: true, usable: Usable{OK: true}},
		"booted, and no runtime":      {boot: "next", exits: true, usable: Usable{Reason: v1alpha1.ReasonRuntimeNotReady}},
		"no runtime, and it ran last": {boot: "boot", usable: Usable{Reason: v1alpha1.ReasonRuntimeNotReady}, want: "c-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.start(t).Update(workload("a"))
				n.settle(time.Minute)
				m := restarted(t, n)
				m.apiDown = false
				m.syncing = func(ctx context.Context, _ plan.SyncRequest) plan.SyncOutcome { // its start hangs
					<-ctx.Done()
					return plan.SyncOutcome{}
				}
				if tc.exits {
					m.exit("a", 1)
				}
				seen := &publications{Publisher: m}
				m.restoreWith(t, func(c *Config) { c.Publisher, c.BootID = seen, tc.boot })
				m.beginWith(t, tc.usable)
				m.settle(time.Minute)
				if len(seen.since(0)) == 0 {
					t.Fatal("nothing was published")
				}
				for _, st := range seen.since(0) {
					if got := readyWith(&st); got != tc.want {
						t.Errorf("%s is ready, want %q", got, tc.want)
					}
				}
			})
		})
	}
}

// The status of an earlier process is written when this one has looked, or has recorded a kill.
func TestRecalledStatusWaits(t *testing.T) {
	for name, looks := range map[string]func(*memory){
		"a look": func(m *memory) { m.report(desired{pod: &corev1.Pod{}}, report{}, nil, plan.Moment{}) },
		"a kill": func(m *memory) { m.recordKill(plan.KillProgress{}, "") },
	} {
		m := newMemory(Identity{}, "boot")
		m.restore(&Checkpoint{State: Syncing, PodStatus: &corev1.PodStatus{}, Outbox: outbox{}.add(notice{Reason: "Due"})}, &Config{})
		d := m.beginDispatch()
		if _, err := m.endDispatch(d, nil); err != nil || d.status != nil || !d.outbox.empty() || m.flushed() {
			t.Errorf("before %s: status %v, events %v are sent, error %v", name, d.status, d.outbox, err)
		}
		looks(m)
		if d := m.beginDispatch(); d.status == nil || d.outbox.empty() {
			t.Errorf("after %s: status %v, events %v are sent", name, d.status, d.outbox)
		}
	}
}
