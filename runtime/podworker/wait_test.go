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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// registry has images once they are pushed; until then a pull hangs, or fails if it is
// told to.
type registry struct {
	n      *fakeNode
	pushed map[string]bool
	fails  bool
	// hangs ends when pulls that hang fail.
	hangs chan struct{}
	// pulling are the images whose pulls are under way, tries counts all.
	pulling []string
	tries   int
}

func newRegistry(n *fakeNode) *registry {
	r := &registry{n: n, pushed: map[string]bool{}, hangs: make(chan struct{})}
	n.preparing = r.prepare
	return r
}

func (r *registry) prepare(ctx context.Context, image plan.ImageKey, begins func()) (plan.Preparation, error) {
	begins()
	r.n.mu.Lock()
	r.tries++
	r.pulling = append(r.pulling, image.Image)
	there, fails := r.pushed[image.Image], r.fails
	r.n.mu.Unlock()
	defer func() {
		r.n.mu.Lock()
		defer r.n.mu.Unlock()
		r.pulling = slices.DeleteFunc(r.pulling, func(name string) bool { return name == image.Image })
	}()
	if there {
		return plan.Preparation{Ref: "sha256:" + image.Image, Pulled: true}, nil
	}
	if !fails {
		select {
		case <-ctx.Done():
			return plan.Preparation{}, ctx.Err()
		case <-r.hangs:
		}
	}
	return plan.Preparation{Reason: plan.Reason{Reason: "ErrImagePull", Message: "no such image"}}, nil
}

func (r *registry) set(change func()) {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	change()
}

func (r *registry) underWay() []string {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	return slices.Clone(r.pulling)
}

// waits is the condition of a change that waits, nil if it does not.
func (n *fakeNode) waits(uid string) *metav1.Condition {
	st := n.published(types.UID(uid))
	return meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionUpdateWaiting)
}

// runs is the ID of the only running container.
func (n *fakeNode) runs(t *testing.T, uid string) string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []string
	for _, c := range n.pods[types.UID(uid)].containers {
		if c.State == plan.ContainerRunning {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) != 1 {
		t.Errorf("running: %v, want one", ids)
	}
	return strings.Join(ids, " ")
}

func hashOf(nw *template.Workload) string {
	tmpl := nw.Template.DeepCopy()
	template.SetDefaults(tmpl)
	return template.Hash(tmpl)
}

// A changed container runs until its image is there. Meanwhile the status says what is
// waited for, and does not look like that of the new template.
func TestChangeWaitsForItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		before, after := workload("a"), workload("a", generation(2), image("absent:2"))
		p.Update(before)
		n.settle(time.Second)
		old := n.runs(t, "a")
		check := func(reason, summary string) {
			t.Helper()
			st, c := n.published("a"), n.waits("a")
			if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, "container c waits for image absent:2") {
				t.Errorf("condition %+v, want %s", c, reason)
			}
			if st.Summary != summary || st.TemplateHash != hashOf(before) || st.ObservedGeneration != 2 || st.Ready != "1/1" {
				t.Errorf("summary %q, hash %s, generation %d, ready %s", st.Summary, st.TemplateHash, st.ObservedGeneration, st.Ready)
			}
			if id := n.runs(t, "a"); id != old || len(n.synced) != 1 {
				t.Errorf("%s runs after %d syncs, want %s", id, len(n.synced), old)
			}
		}
		p.Update(after)
		n.settle(time.Second)
		check("Pulling", "Running, waiting: Pulling")

		r.set(func() { r.fails = true })
		close(r.hangs)
		n.settle(time.Second)
		check("ErrImagePull", "Running, waiting: ErrImagePull")
		if c := n.waits("a"); !strings.HasSuffix(c.Message, ": ErrImagePull: no such image") {
			t.Errorf("message %q", c.Message)
		}
		tries := r.tries
		n.settle(time.Minute)
		check("ErrImagePull", "Running, waiting: ErrImagePull")
		if more := r.tries - tries; more < 3 || more > 6 {
			t.Errorf("%d tries in a minute", more)
		}

		r.set(func() { r.pushed["absent:2"] = true })
		n.settle(2 * errorDelay)
		st := n.published("a")
		if id := n.runs(t, "a"); id == old || n.waits("a") != nil || st.Summary != "Running" || st.TemplateHash != hashOf(after) {
			t.Errorf("%s runs, summary %q, hash %s, condition %v", id, st.Summary, st.TemplateHash, n.waits("a"))
		}
		if images := n.synced[1].Actions.Images; len(n.synced) != 2 || len(images) != 1 || images[0].Use != plan.ImagePulled || images[0].Ref != "sha256:absent:2" {
			t.Errorf("%d syncs, images %+v", len(n.synced), images)
		}
	})
}

// An image that is there, but that the pod may not use without a pull, is waited for as one
// that is not there.
func TestChangeWaitsForAnImageOfAnotherTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.private = map[string]bool{"sha256:private:2": true}
		r, p := newRegistry(n), n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		old := n.runs(t, "a")
		p.Update(workload("a", generation(2), image("private:2")))
		n.settle(time.Second)
		if c := n.waits("a"); n.runs(t, "a") != old || c == nil || c.Reason != "Pulling" {
			t.Errorf("%s runs, condition %+v, want %s and a pull", n.runs(t, "a"), c, old)
		}
		r.set(func() { r.pushed["private:2"] = true })
		close(r.hangs)
		n.settle(2 * errorDelay)
		if n.runs(t, "a") == old || n.waits("a") != nil {
			t.Errorf("%s runs, condition %+v after the pull", n.runs(t, "a"), n.waits("a"))
		}
	})
}

// Nobody waits for a pull whose result is not wanted any more.
func TestPullIsGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(p *Pool)
		killed  int
		pulling []string
	}{
		"deleted":       {func(p *Pool) { p.Update(workload("a", deleted(nil))) }, 1, nil},
		"changed again": {func(p *Pool) { p.Update(workload("a", generation(3), image("absent:3"))) }, 0, []string{"absent:3"}},
		"changed back":  {func(p *Pool) { p.Update(workload("a", generation(3))) }, 0, nil},
		"evicted": {func(p *Pool) {
			p.Terminate("a", plan.Termination{Reason: "Evicted", Message: "no room"})
		}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, p := newRegistry(n), n.start(t)
				p.Update(workload("a"))
				n.settle(time.Second)
				p.Update(workload("a", generation(2), image("absent:2")))
				n.settle(time.Second)
				if got := r.underWay(); !slices.Equal(got, []string{"absent:2"}) {
					t.Fatalf("pulls under way: %v", got)
				}
				tt.change(p)
				n.settle(time.Millisecond)
				if got := r.underWay(); !slices.Equal(got, tt.pulling) || len(n.killed) != tt.killed {
					t.Errorf("pulls under way %v, %d pod kills, want %v, %d", got, len(n.killed), tt.pulling, tt.killed)
				}
				n.settle(time.Second)
				if c := n.waits("a"); (c != nil) != (tt.pulling != nil) {
					t.Errorf("condition %+v", c)
				}
			})
		})
	}
}

// What fails its probe is killed without its successor's image, and so is seen to wait
// as a container of a Pod does; nothing is started before the image is there.
func TestProbeKillDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		p.Update(workload("a"))
		n.settle(time.Second)
		old := n.runs(t, "a")
		p.Update(workload("a", generation(2), image("absent:2")))
		n.settle(time.Second)
		r.set(func() {
			n.verdicts = map[string]plan.ProbeResults{old: {Liveness: plan.ProbeFailure}}
			n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
				if kills := r.Actions.ContainersToKill; len(kills) != 1 || kills[0].Trigger != v1alpha1.TriggerLivenessProbe {
					t.Errorf("kills %+v", kills)
				}
				n.exit("a", 137)
				return plan.SyncOutcome{}
			}
		})
		p.Wake("a")
		n.settle(time.Second)
		st := n.published("a")
		if w := st.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ErrImagePull" || st.Summary != "ErrImagePull" || n.waits("a") == nil {
			t.Errorf("state %+v, summary %q, condition %+v", st.ContainerStatuses[0].State, st.Summary, n.waits("a"))
		}
		n.settle(time.Minute)
		if hash := n.published("a").TemplateHash; len(n.synced) != 2 || hash == hashOf(workload("a", image("absent:2"))) {
			t.Errorf("%d syncs: started without its image, or hash %s is said to run", len(n.synced), hash)
		}
		r.set(func() { r.pushed["absent:2"], n.syncing = true, nil })
		n.settle(2 * errorDelay)
		if got := n.log(); !slices.Contains(got, "start c absent:2") || n.waits("a") != nil {
			t.Errorf("calls %q, condition %+v", got, n.waits("a"))
		}
	})
}

// The shim that comes after continues to wait, and kills nothing.
func TestWaitOutlivesTheShim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		p.Update(workload("a"))
		n.settle(time.Second)
		old := n.runs(t, "a")
		p.Update(workload("a", generation(2), image("absent:2")))
		n.settle(time.Second)

		m := restarted(t, n)
		m.apiDown = false
		again := newRegistry(m)
		again.fails = true
		p = m.start(t)
		m.settle(time.Minute)
		if st := m.published("a"); len(m.synced) != 0 || st.TemplateHash != hashOf(workload("a")) || st.Summary != "Running, waiting: ErrImagePull" || again.tries != 0 {
			t.Errorf("before the API has shown the object: %d syncs, %d tries, hash %s, summary %s", len(m.synced), again.tries, st.TemplateHash, st.Summary)
		}
		p.Update(workload("a", generation(2), image("absent:2")))
		m.settle(time.Minute)
		st := m.published("a")
		if c := m.waits("a"); c == nil || c.Reason != "ErrImagePull" || m.runs(t, "a") != old || len(m.synced) != 0 || st.TemplateHash != hashOf(workload("a")) {
			t.Errorf("condition %+v, %d syncs, hash %s", c, len(m.synced), st.TemplateHash)
		}
		again.set(func() { again.pushed["absent:2"] = true })
		m.settle(2 * errorDelay)
		if !m.did("start c absent:2") {
			t.Error("not replaced once the image was there")
		}
	})
}

// While a container waits it is probed as it was made: the probes of the new template are
// for the new image.
func TestWaitingContainerKeepsItsProbes(t *testing.T) {
	probed := func(path string) func(*template.Workload) {
		return func(nw *template.Workload) {
			probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
			nw.Template.Spec.Containers[0].LivenessProbe, nw.Template.Spec.Containers[0].ReadinessProbe = probe, probe
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		p.Update(workload("a", probed("/old")))
		n.settle(time.Second)
		n.mu.Lock()
		n.verdicts = map[string]plan.ProbeResults{n.pods["a"].containers[0].ID: {Liveness: plan.ProbeSuccess, Readiness: plan.ProbeSuccess}}
		n.mu.Unlock()
		p.Wake("a")
		path := func() string {
			n.settle(2 * errorDelay)
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.probed.Spec.Containers[0].LivenessProbe.HTTPGet.Path
		}
		p.Update(workload("a", generation(2), image("absent:2"), probed("/new")))
		if got, st := path(), n.published("a"); got != "/old" || st.Ready != "1/1" {
			t.Errorf("probed at %s, ready %s", got, st.Ready)
		}
		r.set(func() { r.pushed["absent:2"] = true })
		if got := path(); got != "/new" {
			t.Errorf("probed at %s after it was replaced", got)
		}
		p.Update(workload("a", generation(3), image("absent:2"), probed("/newer")))
		if got := path(); got != "/newer" {
			t.Errorf("probed at %s: a changed probe needs no restart", got)
		}
	})
}

// A shim that has just begun, without an API, probes a container as the shim before did, while a change
// waits. Where nothing says what it was made from, no probe of the new template kills it.
func TestProbesOfAnUnconfirmedTemplate(t *testing.T) {
	for name, want := range map[string]string{"known": "/old", "not known": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r, p := newRegistry(n), n.start(t)
				r.fails = true
				p.Update(workload("w", twoContainers("image:1", "image:1", "/old")))
				n.settle(time.Second)
				p.Update(workload("w", generation(2), twoContainers("absent:2", "image:1", "/new")))
				n.settle(time.Minute)

				m := restarted(t, n)
				m.apiDown = false
				if want == "" {
					all, err := m.store.Load()
					if err != nil {
						t.Fatal(err)
					}
					all[0].Previous = nil
					if err := m.store.Save(all[0]); err != nil {
						t.Fatal(err)
					}
				}
				newRegistry(m).fails = true
				m.start(t)
				m.settle(time.Minute)
				if got := m.paths()["a"]; got != want {
					t.Errorf("probed at %q, want %q", got, want)
				}
			})
		})
	}
}

// A change that was half made and is taken back is not what runs, until it is.
func TestHalfAChangeIsNotTheTemplate(t *testing.T) {
	two := func(a, b string) func(*template.Workload) {
		return func(nw *template.Workload) {
			nw.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: a}, {Name: "b", Image: b}}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		before, after := workload("a", two("absent:1", "absent:1")), workload("a", generation(2), two("image:2", "absent:2"))
		p.Update(before)
		n.settle(time.Second)
		p.Update(after)
		n.settle(time.Second)
		if st := n.published("a"); !n.did("start a image:2") || n.did("start b absent:2") || st.TemplateHash == hashOf(after) {
			t.Fatalf("calls %q, hash %s", n.log(), st.TemplateHash)
		}
		p.Update(workload("a", generation(3), two("absent:1", "absent:1")))
		n.settle(time.Second)
		if st := n.published("a"); st.TemplateHash != "" || st.ObservedGeneration != 3 || n.waits("a") == nil {
			t.Errorf("hash %q of generation %d, condition %+v", st.TemplateHash, st.ObservedGeneration, n.waits("a"))
		}
		r.set(func() { r.pushed["absent:1"] = true })
		n.settle(2 * errorDelay)
		if st := n.published("a"); st.TemplateHash != hashOf(before) || n.waits("a") != nil {
			t.Errorf("hash %q, condition %+v", st.TemplateHash, n.waits("a"))
		}
	})
}

// An image that is there costs no wait: a changed definition counts more than a failed
// probe then, as in the kubelet.
func TestPresentImageIsNotWaitedFor(t *testing.T) {
	never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Second)
		n.mu.Lock()
		n.verdicts = map[string]plan.ProbeResults{n.pods["a"].containers[0].ID: {Liveness: plan.ProbeFailure}}
		n.mu.Unlock()
		p.Update(workload("a", generation(2), never, image("image:2")))
		n.settle(time.Second)
		if got := n.log(); !slices.Contains(got, "start c image:2") || slices.Contains(got, "prepare image:2") || len(n.killed) != 0 {
			t.Errorf("calls %q", got)
		}
	})
}

// Another request to restart wants another pull.
func TestRestartRequestedAgain(t *testing.T) {
	requested := func(at string) func(*template.Workload) {
		return func(nw *template.Workload) {
			nw.Template.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: at}
			nw.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		p.Update(workload("a"))
		n.settle(time.Second)
		for g, at := range []string{"1", "2"} {
			p.Update(workload("a", generation(int64(g)+2), requested(at)))
			n.settle(time.Second)
			if c := n.waits("a"); c == nil || r.tries != g+1 {
				t.Errorf("request %s: condition %+v, %d tries", at, c, r.tries)
			}
		}
	})
}

// Nothing is tried while the runtime may not be used, and nobody spins.
func TestWaitWhileTheRuntimeIsUnusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.fails = true
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image("absent:2")))
		n.settle(time.Second)
		p.SetUsable(Usable{Reason: v1alpha1.ReasonForeignPods})
		n.settle(time.Second)
		tries := r.tries
		n.settle(time.Hour)
		if r.tries != tries || n.waits("a") == nil {
			t.Errorf("%d tries while the runtime was not usable, condition %v", r.tries-tries, n.waits("a"))
		}
		p.SetUsable(Usable{OK: true})
		n.settle(time.Second)
		if r.tries == tries {
			t.Error("no try after that")
		}
	})
}

// A pull that panics has failed; the worker and its container live on.
func TestPullPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		old := n.runs(t, "a")
		n.mu.Lock()
		n.preparing = func(context.Context, plan.ImageKey, func()) (plan.Preparation, error) { panic(errors.New("no")) }
		n.mu.Unlock()
		p.Update(workload("a", generation(2), image("absent:2")))
		n.settle(time.Second)
		if c := n.waits("a"); c == nil || c.Reason != "ErrImagePull" || n.runs(t, "a") != old {
			t.Errorf("condition %+v", c)
		}
	})
}

// The image of a start that failed is pulled again for the next try, where each start
// pulls.
func TestFailedStartPullsAgain(t *testing.T) {
	for name, always := range map[string]func(*template.Workload){
		"its image": func(nw *template.Workload) {
			nw.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		},
		"the image of a volume": func(nw *template.Workload) {
			spec := &nw.Template.Spec
			spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: "files:1", PullPolicy: corev1.PullAlways},
			}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		},
	} {
		t.Run(name, func(t *testing.T) { failedStartPullsAgain(t, always) })
	}
}

func failedStartPullsAgain(t *testing.T, always func(*template.Workload)) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		r, p := newRegistry(n), n.start(t)
		r.pushed["image:2"], r.pushed["files:1"] = true, true
		p.Update(workload("a", always))
		n.settle(time.Second)
		fails := true
		r.set(func() {
			n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
				n.exit("a", 0) // the kill succeeds, and is not followed by an instance
				if fails {
					return plan.SyncOutcome{Err: errors.New("no"), Tried: map[string]plan.Reason{"c": {Reason: "CreateContainerConfigError"}}}
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				n.run(r)
				return plan.SyncOutcome{}
			}
		})
		p.Update(workload("a", generation(2), image("image:2"), always))
		n.settle(time.Minute)
		tries, syncs := r.tries, len(n.synced)-1
		if tries < 4 || tries > 7 || syncs < tries-1 || syncs > tries {
			t.Errorf("%d pulls for %d tries", tries, syncs)
		}
		if w := n.published("a").ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CreateContainerConfigError" {
			t.Errorf("state %+v", n.published("a").ContainerStatuses[0].State)
		}
		r.set(func() { fails = false })
		n.settle(2 * errorDelay)
		if !n.did("start c image:2") || n.waits("a") != nil {
			t.Errorf("calls %q, condition %+v", n.log(), n.waits("a"))
		}
	})
}

// A template that is taken back runs once that was seen, and not before: the other one may
// have been half made, and the runtime cannot be asked.
func TestTakenBackWhileNothingCanBeSeen(t *testing.T) {
	cpu := func(request string) func(*template.Workload) {
		return func(nw *template.Workload) {
			nw.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
		}
	}
	for name, unusable := range map[string]Usable{
		"not ready": {Reason: v1alpha1.ReasonRuntimeNotReady}, "not ours": {Reason: v1alpha1.ReasonForeignPods},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				before := workload("a", cpu("1"))
				p.Update(before)
				n.settle(time.Second)
				if st := n.published("a"); st.TemplateHash != hashOf(before) {
					t.Fatalf("hash %q", st.TemplateHash)
				}
				p.SetUsable(unusable)
				p.Update(workload("a", generation(2), cpu("2")))
				n.settle(time.Second)
				if st := n.published("a"); st.TemplateHash != hashOf(before) {
					t.Errorf("hash %q while another is wanted", st.TemplateHash)
				}
				p.Update(workload("a", generation(3), cpu("1")))
				n.settle(time.Second)
				if st := n.published("a"); st.TemplateHash != "" || st.ObservedGeneration != 3 {
					t.Errorf("hash %q of generation %d while nothing can be seen", st.TemplateHash, st.ObservedGeneration)
				}
				p.SetUsable(Usable{OK: true})
				n.settle(time.Second)
				if st := n.published("a"); st.TemplateHash != hashOf(before) {
					t.Errorf("hash %q after a look", st.TemplateHash)
				}
			})
		})
	}
}

// A container that waits for an image before it is restarted does not have its new resources yet:
// the resize is in progress until it has.
func TestResizeThatWaitsIsInProgress(t *testing.T) {
	resources := func(request string, policy corev1.PullPolicy) func(*template.Workload) {
		return func(nw *template.Workload) {
			c := &nw.Template.Spec.Containers[0]
			c.ImagePullPolicy = policy
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}
	}
	// A node with a container of 1 CPU that needs a restart for another request.
	started := func(t *testing.T, policy corev1.PullPolicy) (*fakeNode, *registry, *Pool) {
		n := newFakeNode(t)
		r := newRegistry(n)
		r.fails = true
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			for i := range n.pods[r.Pod.UID].containers {
				if c := &n.pods[r.Pod.UID].containers[i]; c.Recorded.Resources == nil {
					c.Recorded.Resources = new(plan.ResourcesOf(&r.Pod.Spec.Containers[0].Resources))
				}
			}
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a", resources("1", policy)))
		n.settle(time.Second)
		return n, r, p
	}
	tests := map[string]struct {
		policy corev1.PullPolicy
		image  string
	}{
		"its own image, to be pulled at each start": {policy: corev1.PullAlways, image: "image:1"},
		"another image": {policy: corev1.PullIfNotPresent, image: "absent:2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, r, p := started(t, tc.policy)
				p.Update(workload("a", generation(2), resources("2", tc.policy), image(tc.image)))
				n.settle(time.Minute)
				st := n.published("a")
				if st.ObservedGeneration != 2 || n.waits("a") == nil || !meta.IsStatusConditionTrue(st.Conditions, string(corev1.PodResizeInProgress)) {
					t.Errorf("while it waits: generation %d, conditions %+v", st.ObservedGeneration, st.Conditions)
				}
				if !n.resizeEvent("ResizeStarted", 2, "2") || n.resizeEvent("ResizeCompleted", 2, "2") {
					t.Errorf("while it waits: %q", n.log())
				}
				m := restarted(t, n)
				m.apiDown = false
				newRegistry(m).fails = true
				m.start(t)
				m.settle(time.Minute)
				if st := m.published("a"); !meta.IsStatusConditionTrue(st.Conditions, string(corev1.PodResizeInProgress)) || m.resizeEvent("ResizeCompleted", 2, "2") {
					t.Errorf("another process, before it has seen the object: conditions %+v, calls %q", st.Conditions, m.log())
				}
				r.set(func() { r.pushed[tc.image] = true })
				n.settle(10 * time.Minute)
				st = n.published("a")
				if n.waits("a") != nil || meta.FindStatusCondition(st.Conditions, string(corev1.PodResizeInProgress)) != nil || !n.resizeEvent("ResizeCompleted", 2, "2") {
					t.Errorf("at its end: conditions %+v, calls %q", st.Conditions, n.log())
				}
			})
		})
	}
}

// resizeEvent reports whether an event says this of the change to so much CPU.
func (n *fakeNode) resizeEvent(reason string, generation int, request string) bool {
	return slices.ContainsFunc(n.log(), func(call string) bool {
		return strings.HasPrefix(call, "event "+reason+":") && strings.HasSuffix(call, fmt.Sprintf(`{"containers":[{"name":"c","resources":{"requests":{"cpu":%q}}}],"generation":%d}`, request, generation))
	})
}

// A shim without a checkpoint does not believe a status that what runs contradicts.
func TestStatusOfAnotherTemplateIsNotBelieved(t *testing.T) {
	for name, change := range map[string]func(*plan.ContainerStatus){
		"another definition": func(c *plan.ContainerStatus) { c.Hash = "v2:another" },
		"other resources":    func(c *plan.ContainerStatus) { c.Recorded.Resources = &plan.Resources{CPURequest: 1000} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				newRegistry(n)
				n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
					return plan.SyncOutcome{ResizeError: "not now"}
				}
				nw := workload("a", image("absent:1"))
				nw.Status = v1alpha1.NodeWorkloadStatus{TemplateHash: hashOf(nw), ObservedGeneration: 1, Phase: corev1.PodRunning}
				c := plan.ContainerStatus{
					ID: "c", Name: "c", SandboxID: "sandbox", State: plan.ContainerRunning, Hash: plan.HashContainer(&template.Pod(nw).Spec.Containers[0]),
				}
				change(&c)
				n.pods["a"] = &fakePod{sandbox: "sandbox", containers: []plan.ContainerStatus{c}}
				p := n.start(t)
				p.Update(nw)
				n.settle(time.Second)
				if st := n.published("a"); st.TemplateHash != "" || st.ObservedGeneration != 1 {
					t.Errorf("hash %q of generation %d", st.TemplateHash, st.ObservedGeneration)
				}
			})
		})
	}
}

// What an earlier process wrote down, and could not carry out, is not said to run before
// the API has shown it.
func TestTemplateOfTheCheckpointIsNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.pods["a"].containers[0].Recorded.Resources = &plan.Resources{}
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			return plan.SyncOutcome{ResizeError: "not now"}
		}
		n.mu.Unlock()
		p.Update(workload("a", generation(2), func(nw *template.Workload) {
			nw.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}))
		n.settle(time.Second)
		m := restarted(t, n)
		m.apiDown = false
		m.start(t)
		m.settle(time.Minute)
		if hash := m.published("a").TemplateHash; hash != hashOf(workload("a")) {
			t.Errorf("hash %q, want that of the first template", hash)
		}
	})
}
