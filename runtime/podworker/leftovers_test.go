// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func (n *fakeNode) times(call string) int {
	return len(slices.DeleteFunc(n.log(), func(c string) bool { return c != call }))
}

func (n *fakeNode) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

var initProcess = []Leftover{{PID: 4711, Name: "runc:[2:INIT]", ContainerID: "c0ffee"}}

// What the runtime has left in the cgroup of a workload that is being deleted is killed, after all
// containers are removed and a while later, and the kill has its record; the object goes.
func TestLeftoversOfADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.removeErr, n.leftovers = errors.New("device or resource busy"), initProcess
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(2 * time.Second)
		if n.did("kill leftovers") {
			t.Error("killed what may just be on its way out")
		}
		n.settle(20 * time.Second)
		if n.times("kill leftovers") != 1 || !n.did("release a") {
			t.Errorf("calls %q", n.log())
		}
		kills := n.published("a").Kills
		i := slices.IndexFunc(kills, func(k v1alpha1.KillRecord) bool { return k.Trigger == v1alpha1.TriggerProcessesLeft })
		if i < 0 {
			t.Fatalf("records %+v", kills)
		}
		last := kills[i]
		want := "processes left (the runtime has left 4711 (runc:[2:INIT]) in the cgroup of the pod)"
		if last.Trigger != v1alpha1.TriggerProcessesLeft || last.Outcome != v1alpha1.KillOutcomeForced || last.Container != "" ||
			last.Summary != want+"; SIGKILL; SIGKILL after 0s (0s allowed)" {
			t.Errorf("record %+v", last)
		}
	})
}

// containerd does not remove a container whose start was cut off as long as the process of that start
// is there, which it does not know: the process is killed, and the container, the sandbox and the object go.
func TestLeftoversOfAContainerThatIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.leftovers = initProcess
		left := ""
		n.removing = func(id string) error {
			if left == "" {
				left = id
			}
			if id == left && !slices.Contains(n.calls, "kill leftovers") {
				return errors.New("cannot delete running task")
			}
			return nil
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(2 * time.Second)
		if n.did("kill leftovers") {
			t.Error("killed what may just be on its way out")
		}
		n.settle(20 * time.Second)
		if n.times("kill leftovers") != 1 || !n.did("release a") {
			t.Errorf("calls %q", n.log())
		}
	})
}

// A process that does not end (state D) is said, and is tried again with a pause; the kill has one
// record.
func TestLeftoversThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.removeErr, n.leftovers = errors.New("device or resource busy"), initProcess
		n.leftoverErr = errors.New("processes do not end although they were sent SIGKILL: [4711 (runc:[2:INIT])]")
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		st := n.published("a")
		failing := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionKillFailing)
		if failing == nil || failing.Message != n.leftoverErr.Error() || n.did("release a") {
			t.Errorf("condition %+v", failing)
		}
		if tries := n.times("remove directories"); tries < 5 || tries > 12 {
			t.Errorf("%d tries in a minute", tries)
		}
		records := 0
		for _, k := range st.Kills {
			if k.Trigger == v1alpha1.TriggerProcessesLeft {
				records++
				if k.Outcome != v1alpha1.KillOutcomeFailed || k.Error != n.leftoverErr.Error() {
					t.Errorf("record %+v", k)
				}
			}
		}
		if records != 1 {
			t.Errorf("%d records", records)
		}
		n.change(func() { n.leftoverErr = nil })
		n.settle(time.Minute)
		if !n.did("release a") {
			t.Errorf("it has ended: calls %q", n.log())
		}
	})
}

// A workload that ended by itself gives its place back in the same way.
func TestLeftoversOfAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.releaseErr, n.leftovers = errors.New("device or resource busy"), initProcess
		p := n.start(t)
		p.Update(workload("a", func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }))
		n.settle(time.Second)
		n.exit("a", 0)
		p.Wake("a")
		n.settle(time.Minute)
		if n.did("kill leftovers") {
			t.Error("killed beside a sandbox that is ready")
		}
		n.change(func() { n.sandboxStopped = true })
		n.settle(time.Minute)
		if n.times("kill leftovers") != 1 || n.times("release volumes") < 3 {
			t.Errorf("calls %q", n.log())
		}
	})
}
