// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// restarted is a node with the containers of n, on which a new shim finds the
// checkpoints that the one of n has left behind. It cannot reach the API server.
func restarted(t *testing.T, n *fakeNode) *fakeNode {
	t.Helper()
	synctest.Wait() // what is being written is whole
	checkpoints, err := n.store.Load()
	if err != nil {
		t.Fatal(err)
	}
	m := newFakeNode(t)
	m.apiDown = true
	for _, cp := range checkpoints {
		if err := m.store.Save(cp); err != nil {
			t.Fatal(err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, pod := range n.pods {
		m.pods[uid] = &fakePod{sandbox: pod.sandbox, containers: slices.Clone(pod.containers)}
	}
	return m
}

// The back-off of a container and the workload's own policy are known to the
// shim that comes after.
func TestRestartKeepsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := plan.Backoff{Current: 4 * time.Second, LastUpdate: time.Now()}
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			kept := entry
			r.Backoff[plan.BackoffKey(r.Pod, &r.Pod.Spec.Containers[0])] = &kept
			return plan.SyncOutcome{}
		}
		n.start(t).Update(workload("a", func(nw *template.Workload) {
			nw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: ptr.To[int32](2), MaxSeconds: ptr.To[int32](8)}
		}))
		n.settle(time.Second)

		m := restarted(t, n)
		m.exit("a", 1)
		m.start(t)
		n.settle(time.Second)
		if len(m.synced) != 1 {
			t.Fatalf("%d plans carried out, want 1", len(m.synced))
		}
		request := m.synced[0]
		got := request.Backoff[plan.BackoffKey(request.Pod, &request.Pod.Spec.Containers[0])]
		if got == nil || got.Current != entry.Current || !got.LastUpdate.Equal(entry.LastUpdate) {
			t.Errorf("Entry = %+v, want %+v", got, entry)
		}
		want := plan.BackoffPolicy{Base: 2 * time.Second, Max: 8 * time.Second, Expire: plan.DefaultBackoffExpire}
		if diff := cmp.Diff(want, request.BackoffPolicy); diff != "" {
			t.Errorf("Policy differs (-want +got):\n%s", diff)
		}
	})
}

// Probes, hooks, grace periods, labels and annotations change without a kill, and
// the shim that comes after knows them although no container was created since.
func TestRestartKeepsChangesInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ok"}}}, PeriodSeconds: 3}
		p.Update(workload("a", generation(2), func(nw *template.Workload) {
			nw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{MaxSeconds: ptr.To[int32](9)}
			nw.Template.Labels = map[string]string{"new": "label"}
			nw.Template.Annotations = map[string]string{"new": "annotation"}
			nw.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](77)
			c := &nw.Template.Spec.Containers[0]
			c.Lifecycle, c.LivenessProbe = &corev1.Lifecycle{PreStop: hook}, probe
		}))
		n.settle(time.Second)
		if len(n.synced) != 1 {
			t.Fatalf("%d plans carried out, want only the one that starts", len(n.synced))
		}

		m := restarted(t, n)
		pool := m.start(t)
		n.settle(time.Second)
		pool.Abandon(Identity{UID: "a", Namespace: "ns", Name: "a"}, nil)
		n.settle(time.Second)
		if len(m.synced) != 0 || len(m.killed) != 1 {
			t.Fatalf("%d plans and %d pod kills, want none and the one that was asked for", len(m.synced), len(m.killed))
		}
		pod := m.killed[0].Pod
		c := pod.Spec.Containers[0]
		if c.Lifecycle == nil || cmp.Diff(hook, c.Lifecycle.PreStop) != "" || c.LivenessProbe == nil || c.LivenessProbe.PeriodSeconds != 3 {
			t.Errorf("Container is killed as %+v", c)
		}
		if m.killed[0].Override.Seconds != 77 || pod.Labels["new"] != "label" || pod.Annotations["new"] != "annotation" {
			t.Errorf("Pod is killed with %d s, labels %v, annotations %v", m.killed[0].Override.Seconds, pod.Labels, pod.Annotations)
		}
	})
}

// A checkpoint may be older than what runs, when the disk failed at the end of the
// process before: what runs is kept until the API server has shown the object.
func TestOldCheckpointKillsNothing(t *testing.T) {
	second := func(nw *template.Workload) {
		spec := &nw.Template.Spec
		spec.Containers = append(spec.Containers, corev1.Container{Name: "second", Image: "image:1"})
	}
	tests := map[string]func(*template.Workload){"another image": image("image:2"), "another container": second}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, p, _ := withFullDisk(t)
				latest := workload("a", generation(2), change)
				p.Update(latest)
				n.settle(10 * time.Second)

				m := restarted(t, n)
				pool := m.start(t)
				m.settle(time.Minute)
				if len(m.synced) != 0 || len(m.killed) != 0 {
					t.Fatalf("plans %+v and pod kills %+v before the API was read", m.synced, m.killed)
				}
				pool.Update(latest)
				m.settle(time.Minute)
				if len(m.synced) != 0 || len(m.killed) != 0 {
					t.Errorf("plans %+v and pod kills %+v for what runs already", m.synced, m.killed)
				}
			})
		})
	}
}

// What the process before had not carried out is carried out once the API server has
// shown the object, and does not count as running before.
func TestRestartCarriesOutWhatIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome { return plan.SyncOutcome{} }
		p.Update(workload("a", generation(2), image("image:2")))
		n.settle(time.Second)

		m := restarted(t, n)
		before, err := m.store.Load()
		if err != nil || len(before) != 1 || before[0].Pod.Spec.Containers[0].Image != "image:2" {
			t.Fatalf("checkpoints %+v, error %v", before, err)
		}
		pool := m.start(t)
		m.settle(time.Minute)
		after, err := m.store.Load()
		if err != nil || len(after) != 1 || after[0].TemplateHash != before[0].TemplateHash || len(m.synced) != 0 {
			t.Errorf("checkpoints %+v, error %v, plans %+v: want the template of before", after, err, m.synced)
		}
		pool.Update(workload("a", generation(2), image("image:2")))
		m.settle(time.Minute)
		after, err = m.store.Load()
		if err != nil || len(after) != 1 || after[0].TemplateHash == before[0].TemplateHash || len(m.synced) == 0 {
			t.Errorf("checkpoints %+v, error %v, plans %+v: want the new template", after, err, m.synced)
		}
	})
}

// What was announced about a kill is not announced again after a restart.
func TestRestartTellsNoKillTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.start(t).Update(workload("a"))
		n.settle(time.Second)
		n.pool.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
			ID: "1", Container: "c", Trigger: v1alpha1.TriggerLivenessProbe,
			Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeGraceful, StartTime: metav1.NowMicro(),
		}})
		n.settle(time.Second)
		m := restarted(t, n)
		m.apiDown = false
		m.start(t)
		m.settle(time.Minute)
		for _, node := range []*fakeNode{n, m} {
			announced := slices.ContainsFunc(node.log(), func(c string) bool { return strings.HasPrefix(c, "event Killed: ") })
			if announced != (node == n) {
				t.Errorf("announced by the first: %t, calls %q", node == n, node.log())
			}
		}
		if st := m.published("a"); len(st.Kills) != 1 || st.KillCount != 1 {
			t.Errorf("kills %+v, count %d, want the record kept", st.Kills, st.KillCount)
		}
	})
}
