// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// threeRun has a, b and c run, of which a and b fail their liveness probes. A sync that kills waits
// for what ends it.
func threeRun(t *testing.T, ends map[string]chan error) (*fakeNode, *Pool) {
	t.Helper()
	n := newFakeNode(t)
	n.syncing = func(_ context.Context, r plan.SyncRequest) (out plan.SyncOutcome) {
		for _, k := range r.Actions.ContainersToKill {
			if err := <-ends[k.Name]; err != nil {
				out.Results = append(out.Results, plan.Result{Action: plan.ActionKillContainer, Target: k.Name, Err: err, Message: err.Error()})
				out.Err, out.KillError = err, k.Name+": "+err.Error()
				return out
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.run(r)
		return out
	}
	p := n.start(t)
	p.Update(workload("a", three))
	n.settle(time.Second)
	n.mu.Lock()
	verdicts := map[string]plan.ProbeResults{}
	for _, c := range n.pods["a"].containers {
		if c.Name != "c" {
			verdicts[c.ID] = plan.ProbeResults{Liveness: plan.ProbeFailure}
		}
	}
	n.verdicts = verdicts
	n.mu.Unlock()
	p.Wake("a")
	n.settle(time.Second)
	return n, p
}

func three(nw *template.Workload) {
	nw.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	nw.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "image:a"}, {Name: "b", Image: "image:b"}, {Name: "c", Image: "image:c"}}
}

// starts is how often a container was started.
func (n *fakeNode) starts(name string) (times int) {
	for _, call := range n.log() {
		if call == "start "+name+" image:"+name {
			times++
		}
	}
	return times
}

func (n *fakeNode) exitOne(name string, code int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.pods["a"].containers {
		if c := &n.pods["a"].containers[i]; c.Name == name {
			c.State, c.ExitCode, c.Reason, c.FinishedAt = plan.ContainerExited, code, "Error", time.Now()
		}
	}
}

// Kills that take long hold up neither each other's containers nor any other one.
func TestKillsHoldUpNoOtherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		n, p := threeRun(t, ends)
		check := func(when string, a, b, c int) {
			t.Helper()
			if n.starts("a") != a || n.starts("b") != b || n.starts("c") != c {
				t.Errorf("%s: starts of a %d, b %d, c %d; want %d, %d, %d", when, n.starts("a"), n.starts("b"), n.starts("c"), a, b, c)
			}
		}
		n.exitOne("c", 1)
		p.Wake("a")
		n.settle(time.Second)
		check("c has exited during the kills", 1, 1, 2)
		n.settle(time.Hour)
		p.Wake("a")
		n.settle(time.Second)
		kills := 0
		n.mu.Lock()
		for _, r := range n.synced {
			kills += len(r.Actions.ContainersToKill)
		}
		n.mu.Unlock()
		if kills != 2 {
			t.Errorf("%d kills began, want one of each", kills)
		}
		ends["a"] <- nil
		n.settle(time.Second)
		check("the kill of a is over", 2, 1, 2)
		ends["b"] <- nil
		n.settle(time.Second)
		check("the kill of b is over", 2, 2, 2)
	})
}

// A kill that fails is said, tried again, and keeps no other container from its restart.
func TestAKillThatFailsHoldsUpNoOtherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		n, p := threeRun(t, ends)
		ends["a"] <- errors.New("boom")
		ends["b"] <- nil
		n.settle(time.Second / 2)
		if got := trueCondition(n, v1alpha1.ConditionKillFailing); got != "a: boom" {
			t.Errorf("KillFailing: %q", got)
		}
		n.exitOne("c", 1)
		p.Wake("a")
		n.settle(time.Millisecond)
		if n.starts("b") != 2 || n.starts("c") != 2 {
			t.Errorf("starts of b %d, c %d; want 2 of each", n.starts("b"), n.starts("c"))
		}
		if got := trueCondition(n, v1alpha1.ConditionKillFailing); got != "a: boom" {
			t.Errorf("KillFailing after another sync: %q", got)
		}
		ends["a"] <- nil // the next try, within some seconds
		n.settle(time.Second)
		if got := trueCondition(n, v1alpha1.ConditionKillFailing); n.starts("a") != 2 || got != "" {
			t.Errorf("starts of a %d, KillFailing %q", n.starts("a"), got)
		}
	})
}

// Kills that an earlier process left behind hold up the restart of their own containers only, and what
// is asked of the whole pod; one that fails is tried again.
func TestResumedKillsHoldUpNoOtherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.start(t).Update(workload("a", three))
		n.settle(time.Second)
		for i, name := range []string{"a", "b"} {
			n.pool.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
				ID: name, Container: name, ContainerID: n.pods["a"].containers[i].ID, Trigger: v1alpha1.TriggerLivenessProbe,
				Phase: v1alpha1.KillPhaseStopping, StartTime: metav1.NowMicro(),
			}})
		}
		n.settle(time.Second)

		m := restarted(t, n)
		m.apiDown = false
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		m.resuming = func(kills []plan.KillProgress) error {
			name := kills[0].Record.Container
			if len(kills) != 1 {
				t.Errorf("kills %+v are resumed together", kills)
			}
			if err := <-ends[name]; err != nil {
				return err
			}
			m.exitOne(name, 137)
			return nil
		}
		p := m.start(t)
		p.Update(workload("a", three))
		m.settle(time.Second)
		check := func(when string, a, b, c int) {
			t.Helper()
			if m.starts("a") != a || m.starts("b") != b || m.starts("c") != c {
				t.Errorf("%s: starts of a %d, b %d, c %d; want %d, %d, %d", when, m.starts("a"), m.starts("b"), m.starts("c"), a, b, c)
			}
		}
		m.exitOne("c", 1)
		p.Wake("a")
		m.settle(time.Second)
		check("both kills are under way", 0, 0, 1)
		ends["a"] <- nil
		m.settle(time.Second)
		check("the kill of a is over", 1, 0, 1)
		ends["b"] <- errors.New("boom")
		m.settle(time.Second / 2)
		if got := trueCondition(m, v1alpha1.ConditionKillFailing); got != "boom" {
			t.Errorf("KillFailing: %q", got)
		}
		ends["b"] <- nil // the next try
		m.settle(time.Second)
		check("the kill of b is over", 1, 1, 1)
		if got := trueCondition(m, v1alpha1.ConditionKillFailing); got != "" {
			t.Errorf("KillFailing: %q", got)
		}
	})
}

// The wait before a kill is tried again grows with its own failures, not with those of other kills.
func TestAKillThatFailsDelaysNoOtherRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		threeRun(t, ends)
		ends["a"] <- errors.New("boom")
		ends["b"] <- errors.New("boom")
		last := map[string]time.Time{"a": time.Now(), "b": time.Now()}
		for failures := range 3 {
			for range 2 {
				name := "a"
				select {
				case ends["a"] <- errors.New("boom"):
				case ends["b"] <- errors.New("boom"):
					name = "b"
				}
				if took, most := time.Since(last[name]), plan.KillRetryAfter(1)<<failures*3/2; took > most {
					t.Errorf("%s was tried again %s after failure %d, want %s at most", name, took, failures+1, most)
				}
				last[name] = time.Now()
			}
		}
		ends["a"] <- nil
		ends["b"] <- nil
	})
}

// trueCondition is the message of a condition that is True; empty if it is not.
func trueCondition(n *fakeNode, kind string) string {
	for _, c := range n.published("a").Conditions {
		if c.Type == kind && c.Status == "True" {
			return c.Message
		}
	}
	return ""
}

// A deletion shortens kills that are under way, waits for them, and kills the rest then.
func TestDeletionDuringKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		n, p := threeRun(t, ends)
		p.Update(workload("a", three, deleted(ptr.To[int64](7))))
		n.settle(time.Second)
		n.mu.Lock()
		if !slices.Contains(n.shortened, 7) || len(n.killed) != 0 {
			t.Errorf("shortened to %v, %d pod kills: want the kills under way to have 7 s", n.shortened, len(n.killed))
		}
		n.mu.Unlock()
		ends["a"] <- nil
		ends["b"] <- nil
		n.settle(time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.killed) != 1 {
			t.Errorf("%d kills of the pod, want one", len(n.killed))
		}
	})
}

// While a container is between its kill and its next start, the workload has not ended, whatever its
// exit code and the restart policy say.
func TestWorkloadDoesNotEndBetweenKillAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		end := make(chan struct{})
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			if len(r.Actions.ContainersToKill) > 0 {
				n.exitOne("c", 0)
				n.pool.Wake("a")
				<-end
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		onFailure := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
		p.Update(workload("a", onFailure))
		n.settle(time.Second)
		p.Update(workload("a", onFailure, generation(2), image("image:2")))
		n.settle(time.Minute)
		if got := n.published("a"); plan.Ended(got.Phase) {
			t.Errorf("phase %s during the restart", got.Phase)
		}
		close(end)
		n.settle(time.Second)
		if got := n.published("a"); got.Phase != corev1.PodRunning || !n.did("start c image:2") {
			t.Errorf("phase %s, %q", got.Phase, n.log())
		}
	})
}

// What a container was given in place while a kill took its time is known after the kill.
func TestResizeDuringAKillIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			if len(r.Actions.ContainersToKill) > 0 {
				<-end
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			for i := range n.pods["a"].containers {
				if c := &n.pods["a"].containers[i]; c.Recorded.Resources == nil {
					given := plan.ResourcesOf(&podspec.Container(r.Pod, c.Name).Resources)
					c.Recorded.Resources = &given
				}
			}
			for _, u := range r.Actions.CPUToUpdate {
				n.note("resize %s to %d", u.Name, u.Desired.CPULimit)
				r.Actuated[u.ID] = u.Desired
			}
			return plan.SyncOutcome{}
		}
		two := func(limit string) func(*template.Workload) {
			return func(nw *template.Workload) {
				cpu(limit)(nw)
				spec := &nw.Template.Spec
				spec.RestartPolicy = corev1.RestartPolicyAlways
				spec.Containers = append(spec.Containers, corev1.Container{Name: "a", Image: "image:a"})
			}
		}
		p := n.start(t)
		p.Update(workload("a", two("100m")))
		n.settle(time.Second)
		n.mu.Lock()
		n.verdicts = map[string]plan.ProbeResults{}
		for _, c := range n.pods["a"].containers {
			if c.Name == "a" {
				n.verdicts[c.ID] = plan.ProbeResults{Liveness: plan.ProbeFailure}
			}
		}
		n.mu.Unlock()
		p.Wake("a")
		n.settle(time.Second)
		n.exitOne("c", 1)
		p.Wake("a")
		n.settle(time.Second)
		p.Update(workload("a", two("200m"), generation(2)))
		n.settle(time.Minute)
		close(end)
		n.settle(time.Minute)
		times := 0
		for _, call := range n.log() {
			if call == "resize c to 200" {
				times++
			}
		}
		if times != 1 || n.starts("a") != 2 {
			t.Errorf("c was resized %d times and a started %d times, want 1 and 2: %q", times, n.starts("a"), n.log())
		}
	})
}

// A container that could not be killed, and has ended by itself since, is not said to be killed in
// vain, also while another one cannot be started.
func TestKillThatIsNotNeededAnyMoreFailsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		n, p := threeRun(t, ends)
		ends["a"] <- errors.New("boom")
		ends["b"] <- nil
		n.settle(time.Millisecond)
		if got := trueCondition(n, v1alpha1.ConditionKillFailing); got != "a: boom" {
			t.Errorf("KillFailing: %q", got)
		}
		n.mu.Lock()
		syncing := n.syncing
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			with := len(r.Actions.ContainersToStart)
			r.Actions.ContainersToStart = slices.DeleteFunc(slices.Clone(r.Actions.ContainersToStart), func(i int) bool { return r.Pod.Spec.Containers[i].Name == "c" })
			out := syncing(ctx, r)
			if len(r.Actions.ContainersToStart) < with {
				out.Err = errors.New("cannot start c")
			}
			return out
		}
		n.mu.Unlock()
		n.exitOne("c", 1)
		n.exitOne("a", 1)
		p.Wake("a")
		n.settle(5 * time.Minute)
		if got := trueCondition(n, v1alpha1.ConditionKillFailing); got != "" {
			t.Errorf("KillFailing after a has ended: %q", got)
		}
	})
}
