// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/nodeadmission"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// gate is what the node of these tests says about pods, by their first image.
type gate struct {
	mu     sync.Mutex
	closed map[string]bool
	asked  []string
}

func (g *gate) admit(pod *corev1.Pod) *plan.Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	image := pod.Spec.Containers[0].Image
	g.asked = append(g.asked, image)
	if g.closed[image] {
		return &plan.Refusal{Reason: "NodeSaysNo", Message: "not " + image}
	}
	return nil
}

func (g *gate) set(image string, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = map[string]bool{}
	}
	g.closed[image] = closed
}

func (g *gate) questions() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func checkAdmitted(t *testing.T, n *fakeNode, uid types.UID, reason, message string) {
	t.Helper()
	st := n.published(uid)
	want := metav1.ConditionTrue
	if reason != v1alpha1.ReasonAccepted {
		want = metav1.ConditionFalse
	}
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTemplateAccepted)
	if c == nil || c.Status != want || c.Reason != reason || c.Message != message {
		t.Errorf("%s: condition %+v, want %s with reason %q and message %q", uid, c, want, reason, message)
	}
}

// A new workload that the node does not take is reported and not started, until the node
// takes it.
func TestNodeRefusesANewWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:1", true)
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		checkAdmitted(t, n, "a", "NodeSaysNo", "not image:1")
		if st := n.published("a"); len(n.synced) != 0 || st.Phase != corev1.PodPending || st.Reason != "NodeSaysNo" || st.Summary != "NodeSaysNo" || st.Message != "Pod was rejected: not image:1" {
			t.Errorf("%d plans, status %+v", len(n.synced), st)
		}
		if calls := slices.Sorted(slices.Values(n.log())); !slices.Equal(calls, []string{"event NodeSaysNo: not image:1", "publish NodeSaysNo"}) {
			t.Errorf("calls %q, want one status and one event", calls)
		}
		g.set("image:1", false)
		n.settle(20 * time.Second)
		checkAdmitted(t, n, "a", v1alpha1.ReasonAccepted, "")
		if st := n.published("a"); st.Phase != corev1.PodRunning || st.Reason != "" || st.Message != "" {
			t.Errorf("phase %s, reason %q, message %q once the node takes it", st.Phase, st.Reason, st.Message)
		}
	})
}

// A change of what the node goes by is not waited for.
func TestAskAgainAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:1", true)
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		g.set("image:1", false)
		p.AskAgain()
		n.settle(time.Second)
		if !n.did("start c image:1") {
			t.Errorf("calls %q", n.log())
		}
	})
}

// A changed template that the node does not take leaves what runs as it is: it is kept, and
// restarted without a question.
func TestNodeRefusesAChangedTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:2", true)
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		before := n.published("a")
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Minute)
		checkAdmitted(t, n, "a", "NodeSaysNo", "not image:2")
		st := n.published("a")
		if len(n.synced) != 1 || st.Phase != corev1.PodRunning || st.TemplateHash != before.TemplateHash || st.ObservedGeneration != 2 {
			t.Errorf("%d plans, phase %s, template %s after %s, generation %d", len(n.synced), st.Phase, st.TemplateHash, before.TemplateHash, st.ObservedGeneration)
		}
		g.set("image:1", true)
		n.exit("a", 1)
		p.Wake("a")
		n.settle(time.Minute)
		if last := n.synced[len(n.synced)-1]; len(n.synced) != 2 || last.Pod.Spec.Containers[0].Image != "image:1" {
			t.Errorf("%d plans, calls %q, want a restart of what ran", len(n.synced), n.log())
		}
		g.set("image:2", false)
		p.AskAgain()
		n.settle(time.Second)
		checkAdmitted(t, n, "a", v1alpha1.ReasonAccepted, "")
		if st := n.published("a"); !n.did("start c image:2") || st.TemplateHash == before.TemplateHash {
			t.Errorf("calls %q", n.log())
		}
	})
}

// A template that is taken back is no question any more.
func TestRefusedTemplateIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:2", true)
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		p.Update(workload("a", generation(3)))
		n.settle(time.Minute)
		checkAdmitted(t, n, "a", v1alpha1.ReasonAccepted, "")
		if len(n.synced) != 1 {
			t.Errorf("calls %q, want nothing but the start", n.log())
		}
	})
}

// A restarted shim asks about nothing that runs, or ran, and about what never did.
func TestRestartedShimRefusesNothingThatRan(t *testing.T) {
	for name, forget := range map[string]func(cp *Checkpoint){
		"as it was saved":            func(*Checkpoint) {},
		"it was not noted to run":    func(cp *Checkpoint) { cp.Ran = false },
		"before the template ran":    func(cp *Checkpoint) { cp.TemplateHash = "" },
		"while the containers start": func(cp *Checkpoint) { cp.TemplateHash, cp.Ran = "", false },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, g := newFakeNode(t), &gate{}
				nw := workload("a")
				cp := &Checkpoint{
					Version: checkpointVersion, Identity: Identity{UID: "a", Namespace: nw.Namespace, Name: nw.Name}, State: Syncing,
					Pod: template.Pod(nw), PodHash: hashOf(nw), TemplateHash: hashOf(nw), Ran: true,
					PodStatus: &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "fake://c-1"}}},
				}
				forget(cp)
				if err := n.store.Save(cp); err != nil {
					t.Fatal(err)
				}
				g.set("image:1", true)
				p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
				n.begin(t)
				p.Update(nw)
				n.settle(time.Minute)
				if asked := g.questions(); len(asked) != 0 || !n.did("start c image:1") {
					t.Errorf("asked about %q, calls %q; want what a reboot has ended started again without a question", asked, n.log())
				}
			})
		})
	}
}

// What the runtime has needs no checkpoint to be admitted.
func TestWhatRunsNeedsNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:1", true)
		n.pods["a"] = &fakePod{sandbox: "s"}
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		if asked := g.questions(); len(asked) != 0 || !n.did("start c image:1") {
			t.Errorf("asked about %q, calls %q", asked, n.log())
		}
		cp, err := n.store.Load()
		if err != nil || len(cp) != 1 || !cp[0].Ran {
			t.Errorf("checkpoints %+v, %v; want that it ran", cp, err)
		}
	})
}

// Of workloads that ask for the same, the one that runs has it, then the one that came first,
// whatever the order in which they look.
func TestWhoCameFirstIsAdmittedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.restoreWith(t, func(cfg *Config) {
			cfg.Admit = func(pod *corev1.Pod) *plan.Refusal {
				for _, claim := range n.pool.Claims() {
					if claim.UID != pod.UID && slices.ContainsFunc(claim.Has, func(other *corev1.Pod) bool {
						return other.Spec.Containers[0].Image == pod.Spec.Containers[0].Image
					}) {
						return &plan.Refusal{Reason: "NodePorts", Message: "taken"}
					}
				}
				return nil
			}
		})
		n.begin(t)
		for _, name := range []string{"holder", "z-first", "a-second"} {
			n.pool.Update(workload(name, func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways }))
			n.settle(time.Second)
		}
		checkAdmitted(t, n, "holder", v1alpha1.ReasonAccepted, "")
		checkAdmitted(t, n, "z-first", "NodePorts", "taken")
		checkAdmitted(t, n, "a-second", "NodePorts", "taken")
		n.pool.Update(workload("holder", deleted(nil)))
		n.settle(100 * time.Millisecond)
		n.pool.Wake("a-second")
		n.settle(2 * time.Second)
		checkAdmitted(t, n, "z-first", v1alpha1.ReasonAccepted, "")
		checkAdmitted(t, n, "a-second", "NodePorts", "taken")
		// What it ran before counts until nothing of it runs any more.
		n.pool.Update(workload("z-first", generation(2), image("image:2")))
		n.settle(2 * time.Second)
		checkAdmitted(t, n, "a-second", v1alpha1.ReasonAccepted, "")
	})
}

// A workload that the node does not take ends like any other, and so does one whose change it
// does not take.
func TestRefusedWorkloadCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, g := newFakeNode(t), &gate{}
		g.set("image:2", true)
		p := n.restoreWith(t, func(cfg *Config) { cfg.Admit = g.admit })
		n.begin(t)
		p.Update(workload("new", image("image:2")))
		p.Update(workload("changed"))
		n.settle(time.Second)
		p.Update(workload("changed", generation(2), image("image:2")))
		n.settle(time.Second)
		p.Update(workload("new", image("image:2"), deleted(nil)))
		p.Update(workload("changed", generation(2), image("image:2"), deleted(nil)))
		n.settle(time.Minute)
		if !n.did("release new") || !n.did("release changed") || n.did("start c image:2") {
			t.Errorf("calls %q", n.log())
		}
	})
}

// An answer about a template that is not asked for any more decides nothing.
func TestLateAnswerDecidesNothing(t *testing.T) {
	d := desired{}.updated(workload("a"), func(*corev1.Pod) string { return "" })
	first := d.asks()
	d = d.updated(workload("a", generation(2), image("image:2")), func(*corev1.Pod) string { return "" })
	if late := d.decided(first, &plan.Refusal{Reason: "NodeSaysNo"}); late.denied != nil {
		t.Errorf("denied %+v by an answer about another template", late.denied)
	}
	if late := d.decided(first, nil); late.asks() == nil {
		t.Error("admitted by an answer about another template")
	}
}

// Two workloads that exchange their host ports wait for each other. Both say so, with what ends it; then both move.
func TestWorkloadsThatExchangeHostPortsNameEachOther(t *testing.T) {
	onPort := func(number int32) func(*template.Workload) {
		return func(nw *template.Workload) {
			nw.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			nw.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: number}}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.restoreWith(t, func(cfg *Config) {
			ports := nodeadmission.HostPorts{Workloads: func() (all []nodeadmission.Workload) {
				for _, claim := range n.pool.Claims() {
					all = append(all, nodeadmission.Workload(claim))
				}
				return all
			}}
			cfg.Admit = ports.Admit
		})
		n.begin(t)
		n.pool.Update(workload("a", onPort(1)))
		n.pool.Update(workload("b", onPort(2)))
		n.settle(time.Second)
		n.pool.Update(workload("a", onPort(2), generation(2)))
		n.settle(time.Second)
		const taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: "
		checkAdmitted(t, n, "a", "NodePorts", taken+"2/TCP is that of NodeWorkload b, until it is changed or deleted")
		n.pool.Update(workload("b", onPort(1), generation(2)))
		n.settle(15 * time.Second)
		const inTurn = ", which waits, directly or through others, for a host port of this one: delete one of them, or change one to a free host port first"
		checkAdmitted(t, n, "a", "NodePorts", taken+"2/TCP is that of NodeWorkload b"+inTurn)
		checkAdmitted(t, n, "b", "NodePorts", taken+"1/TCP is that of NodeWorkload a"+inTurn)
		if len(n.killed) != 0 {
			t.Errorf("killed %+v", n.killed)
		}
		n.pool.Update(workload("a", onPort(3), generation(3)))
		n.settle(15 * time.Second)
		checkAdmitted(t, n, "b", v1alpha1.ReasonAccepted, "")
		n.pool.Update(workload("a", onPort(2), generation(4)))
		n.settle(15 * time.Second)
		checkAdmitted(t, n, "a", v1alpha1.ReasonAccepted, "")
	})
}
