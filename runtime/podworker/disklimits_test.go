// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// storage gives the container a limit of ephemeral-storage.
func storage(limit string) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(limit)}
	}
}

const overLimit = "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. "

func uses(bytes int64) plan.DiskUsage { return plan.DiskUsage{Pod: bytes} }

func (n *fakeNode) checkDiskEviction() {
	n.t.Helper()
	st := n.published("a")
	if st.Phase != corev1.PodFailed || st.Reason != "Evicted" || st.Message != overLimit {
		n.t.Errorf("phase %s, reason %q, message %q", st.Phase, st.Reason, st.Message)
	}
}

// A workload above its limit is killed with the kubelet's second of grace and words, and the
// next shim, with the checkpoint or without it, says why and starts nothing.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", storage("1Ki")))
		p.Update(workload("b"))
		n.settle(time.Minute)
		if bounded := p.Bounded(); len(bounded) != 1 || bounded[0].UID != "a" || bounded[0].Urgent {
			t.Errorf("to be measured: %+v, want a alone", bounded)
		}
		p.Measured("a", uses(1024), nil)
		p.Measured("none", uses(4096), nil)
		n.settle(time.Minute)
		if len(n.killed) != 0 {
			t.Fatalf("killed at its limit: %+v", n.killed)
		}
		p.Measured("a", uses(1025), errors.New("not all was measured"))
		n.settle(time.Minute)
		if len(n.killed) != 1 {
			t.Fatalf("kills %+v", n.killed)
		}
		k := n.killed[0]
		if k.Trigger != v1alpha1.TriggerEvicted || k.Message != overLimit || *k.Override != (plan.Grace{Seconds: 1, Source: v1alpha1.GraceSourceOverride}) {
			t.Errorf("kill %+v, override %+v", k, k.Override)
		}
		n.checkDiskEviction()
		if !n.did("event Evicted: "+overLimit) || len(p.Bounded()) != 0 {
			t.Errorf("events %q, still measured: %+v", n.log(), p.Bounded())
		}
		m := restarted(t, n)
		m.setAPI(false)
		p = m.start(t)
		p.Update(workload("a", storage("1Ki")))
		m.settle(time.Hour)
		m.checkDiskEviction()
		if len(m.synced) != 0 {
			t.Error("started again")
		}
	})
}

// Without its checkpoint the workload is still one that was evicted, by what the API has.
func TestEvictionWithoutACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		nw := workload("a", storage("1Ki"))
		nw.Status.Phase, nw.Status.Reason, nw.Status.Message = corev1.PodFailed, "Evicted", overLimit
		p.Update(nw)
		n.settle(time.Hour)
		n.checkDiskEviction()
		if len(n.synced) != 0 {
			t.Error("started again")
		}
	})
}

// An end that was decided is carried out by the next shim, also where the runtime may not be
// used to start anything.
func TestEvictionOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.killing = func(ctx context.Context, _ plan.KillRequest) error {
			<-ctx.Done()
			return ctx.Err()
		}
		p := n.start(t)
		p.Update(workload("a", storage("1Ki")))
		n.settle(time.Minute)
		p.Measured("a", uses(1025), nil)
		n.settle(time.Minute)
		m := restarted(t, n)
		m.setAPI(false)
		p = m.start(t)
		p.SetUsable(Usable{Reason: v1alpha1.ReasonForeignPods})
		p.Update(workload("a", storage("1Ki")))
		m.settle(time.Minute)
		if len(m.killed) != 1 || m.killed[0].Trigger != v1alpha1.TriggerEvicted {
			t.Fatalf("kills %+v", m.killed)
		}
		m.checkDiskEviction()
	})
}

// The limits of a template that waits for its image are not those of what runs.
func TestEvictionGoesByWhatRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		before, wanted string
		used           int64
		evicted        bool
	}{
		"a lower limit waits":       {"4Ki", "1Ki", 2048, false},
		"a higher limit is no harm": {"1Ki", "4Ki", 2048, false},
		"above both":                {"4Ki", "1Ki", 4097, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				newRegistry(n)
				p := n.start(t)
				p.Update(workload("a", storage(tt.before)))
				n.settle(time.Minute)
				p.Update(workload("a", storage(tt.wanted), image("absent:2"), generation(2)))
				n.settle(time.Minute)
				p.Measured("a", uses(tt.used), nil)
				n.settle(time.Minute)
				if got := len(n.killed) == 1; got != tt.evicted {
					t.Errorf("evicted: %t, want %t", got, tt.evicted)
				}
			})
		})
	}
}

// A lower limit restarts nothing. The template counts as running only once a measurement has
// passed under it, so that a roll-out's budget holds for what it evicts.
func TestLowerLimitCountsOnceMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		asked := 0
		p := n.restoreWith(t, func(cfg *Config) { cfg.Measure = func() { asked++ } })
		n.begin(t)
		p.Update(workload("a", storage("4Ki")))
		n.settle(time.Minute)
		before := n.published("a").TemplateHash
		p.Update(workload("a", storage("2Ki"), generation(2)))
		n.settle(time.Minute)
		if st := n.published("a"); st.TemplateHash != before || st.ObservedGeneration != 2 || asked != 1 || !p.Bounded()[0].Urgent {
			t.Fatalf("template hash %q, before %q; generation %d; asked %d times for a measurement; %+v", st.TemplateHash, before, st.ObservedGeneration, asked, p.Bounded())
		}
		p.Measured("a", uses(1), errors.New("no statistics"))
		n.settle(time.Minute)
		waits := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionUpdateWaiting)
		if waits == nil || waits.Reason != "DiskUsageUnknown" || p.Bounded()[0].Urgent {
			t.Errorf("condition %+v, %+v", waits, p.Bounded())
		}
		p.Measured("a", uses(1), nil)
		n.settle(time.Minute)
		st := n.published("a")
		if st.TemplateHash == before || meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionUpdateWaiting) != nil || len(n.killed) != 0 {
			t.Errorf("template hash %q, conditions %+v, %d kills", st.TemplateHash, st.Conditions, len(n.killed))
		}
		p.Update(workload("a", storage("8Ki"), generation(3)))
		n.settle(time.Minute)
		if raised := n.published("a").TemplateHash; raised == st.TemplateHash || asked != 1 {
			t.Errorf("a higher limit waits: asked %d times", asked)
		}
		p.Update(workload("a", storage("1Ki"), generation(4)))
		n.settle(time.Minute)
		p.Measured("a", uses(1025), nil)
		n.settle(time.Minute)
		n.checkDiskEviction()
	})
}

// Where the checkpoint is lost, the template that runs is known from the object's status, and its
// limits if it is the one that is wanted: nothing is evicted by those of another one that waits.
func TestDiskLimitsOfALostCheckpoint(t *testing.T) {
	lower, larger := func(nw *template.Workload) { storage("1Ki")(nw); image("absent:2")(nw) }, storage("4Ki")
	for name, tt := range map[string]struct {
		ran     func(*template.Workload)
		seen    []func(*template.Workload)
		evicted bool
	}{
		"the template that ran":             {storage("1Ki"), []func(*template.Workload){storage("1Ki")}, true},
		"another one waits":                 {larger, []func(*template.Workload){larger, lower}, false},
		"another one waits from the start":  {larger, []func(*template.Workload){lower}, false},
		"another one waits, and is reset":   {larger, []func(*template.Workload){lower, larger}, false},
		"another one waited and waits anew": {larger, []func(*template.Workload){larger, lower, larger, lower}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				n.start(t).Update(workload("a", tt.ran))
				n.settle(time.Minute)
				m := restarted(t, n)
				m.setAPI(false)
				m.forget(t)
				newRegistry(m)
				p := m.start(t)
				status := func(nw *template.Workload) { nw.Status = n.published("a") }
				for i, change := range tt.seen {
					p.Update(workload("a", change, status, generation(int64(i)+2)))
					m.settle(time.Minute)
				}
				p.Measured("a", uses(2048), nil)
				m.settle(time.Minute)
				if got := len(m.killed) > 0; got != tt.evicted {
					t.Errorf("evicted: %t, want %t", got, tt.evicted)
				}
			})
		})
	}
}

// A sidecar that is above its own limit of ephemeral-storage is why its workload is evicted.
func TestEvictionOfASidecar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		limit := func(value string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(value)}}
		}
		p.Update(workload("a", func(nw *template.Workload) {
			spec := &nw.Template.Spec
			spec.Containers[0].Resources = limit("4Gi")
			spec.InitContainers = []corev1.Container{{
				Name: "side", Image: "image:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: limit("5Mi"),
			}}
		}))
		n.settle(time.Minute)
		p.Measured("a", plan.DiskUsage{Pod: 6 << 20, Containers: map[string]int64{"side": 6 << 20}}, nil)
		n.settle(time.Minute)
		const want = `Container side exceeded its local ephemeral storage limit "5Mi". `
		if st := n.published("a"); st.Phase != corev1.PodFailed || st.Reason != "Evicted" || st.Message != want {
			t.Errorf("phase %s, reason %q, message %q; want an eviction: %q", st.Phase, st.Reason, st.Message, want)
		}
	})
}
