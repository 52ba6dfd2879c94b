// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestStateNext(t *testing.T) {
	tests := map[string]struct {
		from  State
		input stateInput
		want  State
	}{
		"nothing happens":                   {Syncing, stateInput{}, Syncing},
		"stopped containers end no sync":    {Syncing, stateInput{stopped: true, removed: true}, Syncing},
		"deletion":                          {Syncing, stateInput{terminate: true, deleted: true}, Terminating},
		"the end by itself":                 {Syncing, stateInput{terminate: true}, Terminating},
		"one step at a time":                {Syncing, stateInput{terminate: true, deleted: true, stopped: true, removed: true}, Terminating},
		"still running":                     {Terminating, stateInput{deleted: true}, Terminating},
		"stopped":                           {Terminating, stateInput{deleted: true, stopped: true}, Terminated},
		"ended and not deleted: it stays":   {Terminated, stateInput{terminate: true, removed: true}, Terminated},
		"deleted, not removed yet":          {Terminated, stateInput{deleted: true}, Terminated},
		"removed":                           {Terminated, stateInput{deleted: true, removed: true}, Removed},
		"no way back":                       {Removed, stateInput{}, Removed},
		"no way back to syncing":            {Terminated, stateInput{}, Terminated},
		"running after the kill":            {Terminated, stateInput{deleted: true, running: true, removed: true}, Terminating},
		"running is no start":               {Terminating, stateInput{deleted: true, running: true}, Terminating},
		"no way back from terminating":      {Terminating, stateInput{}, Terminating},
		"a terminating one does not jump":   {Terminating, stateInput{deleted: true, stopped: true, removed: true}, Terminated},
		"an unknown state stays what it is": {State("?"), stateInput{deleted: true}, State("?")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.from.next(tt.input); got != tt.want {
				t.Errorf("next = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStartsAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.start(t).Update(workload("a"))
		n.settle(time.Second)
		st := n.published("a")
		if st.Summary != "Running" || st.Ready != "1/1" || st.ObservedGeneration != 1 || st.TemplateHash == "" {
			t.Errorf("status %q %q generation %d hash %q", st.Summary, st.Ready, st.ObservedGeneration, st.TemplateHash)
		}
		if starts := n.log(); !slices.Contains(starts, "start c image:1") {
			t.Errorf("calls %q", starts)
		}
		n.settle(10 * time.Minute)
		if len(n.synced) != 1 {
			t.Errorf("%d plans were carried out for a workload that runs", len(n.synced))
		}
	})
}

// Updates that come while a sync continues are one: the latest.
func TestLatestUpdateWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		hang := make(chan struct{})
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			<-hang
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image("image:2")))
		p.Update(workload("a", generation(3), image("image:3")))
		close(hang)
		n.settle(time.Second)
		if st := n.published("a"); st.ObservedGeneration != 3 || st.ContainerStatuses[0].Image != "image:3" {
			t.Errorf("generation %d, image %q", st.ObservedGeneration, st.ContainerStatuses[0].Image)
		}
		if n.did("start c image:2") {
			t.Error("an update that was overtaken was carried out")
		}
	})
}

// An update that comes while a sync continues does not wait for the delay after an error of
// that sync.
func TestUpdateDuringASyncThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		hang := make(chan struct{})
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			if r.Pod.Spec.Containers[0].Image == "image:1" {
				<-hang
				return plan.SyncOutcome{Err: errors.New("a registry that does not answer")}
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a", image("image:1")))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)
		close(hang)
		n.settle(100 * time.Millisecond)
		if !n.did("start c image:2") {
			t.Errorf("did %q, want the update carried out at once", n.log())
		}
	})
}

// A deletion that arrives while a sync hangs cancels it, shortens its kills and
// continues to the end: final status first, then the finalizer.
func TestDeletionWhileSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			n.run(r)
			n.mu.Unlock()
			<-ctx.Done()
			return plan.SyncOutcome{Err: ctx.Err()}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(ptr.To[int64](7)), func(nw *template.Workload) {
			nw.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: "manager"}
		}))
		n.settle(time.Second)
		if !slices.Contains(n.shortened, 7) {
			t.Errorf("shortened to %v, want 7", n.shortened)
		}
		if len(n.killed) != 1 || n.killed[0].Override.Seconds != 7 || n.killed[0].Override.Source != v1alpha1.GraceSourceDeletion ||
			n.killed[0].Trigger != v1alpha1.TriggerTermination || n.killed[0].RequestedBy != "manager" {
			t.Errorf("kills %+v", n.killed)
		}
		log := n.log()
		final, release := slices.Index(log, "publish Completed"), slices.Index(log, "release a")
		if final < 0 || release < final || slices.Index(log, "remove directories") > release {
			t.Errorf("calls %q, want everything removed and the final status published before the release", log)
		}
		if st := n.published("a"); len(st.Kills) != 1 || st.Kills[0].Phase != v1alpha1.KillPhaseDone || st.KillCount != 1 {
			t.Errorf("kills %+v, count %d", st.Kills, st.KillCount)
		}
		if left, err := n.store.Load(); err != nil || len(left) != 0 {
			t.Errorf("checkpoints %v, error %v, want none", left, err)
		}
		if len(p.Known()) != 0 {
			t.Errorf("workers %v, want none", p.Known())
		}
	})
}

// While the API server is away the finalizer stays: the record must get there.
func TestReleaseWaitsForTheFinalStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.apiDown = true
		n.mu.Unlock()
		p.Update(workload("a", deleted(nil)))
		n.settle(5 * time.Minute)
		if n.did("release a") {
			t.Fatal("released before the final status was in the API")
		}
		n.mu.Lock()
		n.apiDown = false
		n.mu.Unlock()
		n.settle(time.Minute)
		if st := n.published("a"); !n.did("release a") || len(st.Kills) != 1 || st.Kills[0].Outcome == "" {
			t.Errorf("released: %t, kills %+v", n.did("release a"), st.Kills)
		}
	})
}

// A container that runs on is an error, reported and tried again.
func TestFailedKillIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		tries := 0
		n.killing = func(_ context.Context, r plan.KillRequest) error {
			if tries++; tries > 1 {
				n.kill(r)
			}
			return nil
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(plan.KillRetryAfter(1) / 2)
		c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionKillFailing)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "still running after the kill: c") {
			t.Errorf("condition %+v", c)
		}
		if !n.did("event FailedKillPod: error killing pod: still running after the kill: c") {
			t.Errorf("calls %q", n.log())
		}
		n.settle(20 * time.Second)
		if tries != 2 || !n.did("release a") {
			t.Errorf("%d tries, released %t", tries, n.did("release a"))
		}
		if c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionKillFailing); c != nil {
			t.Errorf("condition %+v, want none once the kill succeeded", c)
		}
	})
}

func TestGraceShortenedWhileTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.killing = func(_ context.Context, r plan.KillRequest) error {
			time.Sleep(20 * time.Second)
			n.kill(r)
			return nil
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Second)
		p.Update(workload("a", deleted(ptr.To[int64](3)), generation(3)))
		n.settle(time.Second)
		if n.killed[0].Override.Seconds != 30 || n.killed[0].Override.Source != v1alpha1.GraceSourcePod {
			t.Errorf("kill %+v, want the template's grace", n.killed[0])
		}
		if !slices.Contains(n.shortened, 3) {
			t.Errorf("shortened to %v, want 3", n.shortened)
		}
		p.Update(workload("a", deleted(ptr.To[int64](9)), generation(4)))
		n.settle(time.Second)
		if slices.Contains(n.shortened, 9) {
			t.Error("a grace period grew")
		}
	})
}

// A panic in one worker is its own: it starts over after a while, the other one
// does not notice.
func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		panicked := false
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			if r.Pod.UID == "a" && !panicked {
				panicked = true
				panic("a bug")
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a"))
		p.Update(workload("b"))
		n.settle(time.Second)
		if n.published("b").Summary != "Running" || n.published("a").Summary == "Running" {
			t.Errorf("a is %q, b is %q", n.published("a").Summary, n.published("b").Summary)
		}
		n.settle(time.Minute)
		if n.published("a").Summary != "Running" {
			t.Errorf("a is %q after its back-off", n.published("a").Summary)
		}
	})
}

// An instance of the same name waits until the older one is gone.
func TestSameNameWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func(nw *template.Workload) { nw.Name = "x" }
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("old", named))
		n.settle(time.Second)
		p.Update(workload("new", named))
		n.settle(time.Minute)
		if st := n.published("new"); st.Reason != reasonPreviousInstance || n.pods["new"] != nil {
			t.Fatalf("reason %q, started %t", st.Reason, n.pods["new"] != nil)
		}
		if !p.Superseded(Identity{UID: "new", Namespace: "ns", Name: "x"}) {
			t.Error("the older instance is not noticed")
		}
		p.Update(workload("old", named, deleted(nil)))
		n.settle(2 * time.Second)
		if st := n.published("new"); st.Summary != "Running" {
			t.Errorf("the new one is %q", st.Summary)
		}
	})
}

// A refused template changes nothing on the node, and all paths are named.
func TestRefusedTemplateKeepsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		hash := n.published("a").TemplateHash
		p.Update(workload("a", generation(2), image("image:2"), func(nw *template.Workload) {
			nw.Template.Spec.HostnameOverride = ptr.To("other")
			nw.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r"}}
		}))
		n.settle(time.Minute)
		st := n.published("a")
		c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTemplateAccepted)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "spec.template.spec.hostnameOverride") ||
			!strings.Contains(c.Message, "spec.template.spec.resourceClaims") {
			t.Errorf("condition %+v", c)
		}
		if st.ObservedGeneration != 2 || st.TemplateHash != hash || len(n.synced) != 1 {
			t.Errorf("generation %d, hash %q, %d syncs", st.ObservedGeneration, st.TemplateHash, len(n.synced))
		}
		p.Update(workload("a", deleted(nil), generation(3)))
		n.settle(time.Second)
		if !n.did("release a") {
			t.Error("a refused workload could not be deleted")
		}
	})
}

// A workload that ended by itself is terminated, and stays until it is deleted.
func TestEndedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Second)
		n.exit("a", 3)
		p.Wake("a")
		n.settle(time.Hour)
		if st := n.published("a"); st.Phase != corev1.PodFailed || n.did("release a") || n.did("remove directories") {
			t.Errorf("phase %s, calls %q", st.Phase, n.log())
		}
		p.Update(workload("a", never, generation(2)))
		n.settle(time.Hour)
		if len(n.synced) != 1 {
			t.Error("it was started again")
		}
		p.Update(workload("a", never, deleted(nil), generation(3)))
		n.settle(time.Second)
		if !n.did("release a") || n.published("a").Phase != corev1.PodFailed {
			t.Errorf("calls %q, phase %s", n.log(), n.published("a").Phase)
		}
	})
}

// The event about a kill comes after its record is in the API.
func TestEventAfterRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.failure = "3x, HTTP 503"
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		rec := v1alpha1.KillRecord{
			ID: "1", Container: "c", ContainerID: "c-1", Trigger: v1alpha1.TriggerLivenessProbe,
			Message: "Container c failed liveness probe", Phase: v1alpha1.KillPhaseStopping, StartTime: metav1.NowMicro(),
		}
		p.Kill("a", plan.KillProgress{Record: rec})
		n.settle(time.Second)
		if st := n.published("a"); len(st.Kills) != 1 || st.Kills[0].Outcome != "" || st.Kills[0].Message != rec.Message {
			t.Errorf("kills %+v, want the one under way", st.Kills)
		}
		n.mu.Lock()
		n.failure = ""
		n.apiDown = true
		n.mu.Unlock()
		rec.Phase, rec.Outcome = v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced
		p.Kill("a", plan.KillProgress{Record: rec})
		n.settle(10 * time.Second)
		announced := func() bool {
			return slices.ContainsFunc(n.log(), func(c string) bool { return strings.HasPrefix(c, "event Killed: Container c: ") })
		}
		if announced() {
			t.Error("the event came before the record")
		}
		n.mu.Lock()
		n.apiDown = false
		n.mu.Unlock()
		n.settle(time.Minute)
		st := n.published("a")
		if !announced() || st.KillCount != 1 || !strings.Contains(st.Kills[0].Summary, "3x, HTTP 503") {
			t.Errorf("announced %t, count %d, kills %+v", announced(), st.KillCount, st.Kills)
		}
	})
}

// An object that goes without its finalizer: with a worker that has seen it, it
// is a termination by the full spec; else an orphan, by what was recorded.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.gone["a"], n.gone["b"] = true, true
		n.pods["b"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{ID: "x", Name: "c", State: plan.ContainerRunning}}}
		n.mu.Unlock()
		p.Abandon(Identity{UID: "a", Namespace: "ns", Name: "a"}, nil)
		p.Abandon(Identity{UID: "b", Namespace: "ns", Name: "b"}, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "b", Namespace: "ns", Name: "b"},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](5), Containers: []corev1.Container{{Name: "c"}}},
		})
		n.settle(2 * time.Second)
		got := map[types.UID]plan.KillRequest{}
		for _, k := range n.killed {
			got[k.Pod.UID] = k
		}
		if got["a"].Trigger != v1alpha1.TriggerTermination || got["a"].Override.Seconds != 30 {
			t.Errorf("a: %+v", got["a"])
		}
		if got["b"].Trigger != v1alpha1.TriggerOrphan || got["b"].Override.Seconds != 5 {
			t.Errorf("b: %+v", got["b"])
		}
		if len(p.Known()) != 0 || len(n.pods) != 0 {
			t.Errorf("left: workers %v, pods %v", p.Known(), n.pods)
		}
	})
}

// While the runtime may not be used nothing is started, but kills are done.
func TestUnusableRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.SetUsable(Usable{Reason: v1alpha1.ReasonForeignPods, Message: "others"})
		p.Update(workload("b"))
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		c := meta.FindStatusCondition(n.published("b").Conditions, v1alpha1.ConditionRuntimeUsable)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonForeignPods || n.pods["b"] != nil {
			t.Errorf("condition %+v, started %t", c, n.pods["b"] != nil)
		}
		if !n.did("release a") {
			t.Error("a deletion was not carried out")
		}
		p.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
		n.settle(time.Second)
		if n.published("b").Summary != "Running" {
			t.Errorf("b is %q", n.published("b").Summary)
		}
	})
}

// A runtime that does not answer is asked again; nothing is taken for dead.
func TestRuntimeErrorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.observeErr = errors.New("deadline exceeded")
		n.mu.Unlock()
		p.Wake("a")
		n.settle(time.Minute)
		if st := n.published("a"); st.Summary != "Running" {
			t.Errorf("it is %q", st.Summary)
		}
		n.mu.Lock()
		n.observeErr = nil
		n.mu.Unlock()
		n.exit("a", 1)
		n.settle(20 * time.Second)
		if st := n.published("a"); len(n.synced) < 2 || st.Summary != "Running" {
			t.Errorf("%d syncs, it is %q", len(n.synced), st.Summary)
		}
	})
}
