// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// crowded is a node whose kubelet grants a resize where there is room, and answers at once.
type crowded struct {
	facts
	room int64
	// quota is what the API server takes at most; 0: all.
	quota int64
	d     decision
	// above are the times, in minutes since the start, at which more than the room began to be asked for.
	above []int
	start time.Time
}

func newCrowded(room int64, all []*fleet.Share) *crowded {
	start := time.Unix(1e9, 0)
	n := &crowded{room: room, start: start}
	n.facts = facts{shares: all, used: true, now: start, pod: &Pod{Name: "p", Admitted: true, Answered: true, Asked: Own, Granted: Own}}
	return n
}

// run lets some time pass, with a look each 10 s.
func (n *crowded) run(d time.Duration) {
	for end := n.now.Add(d); n.now.Before(end); n.now = n.now.Add(10 * time.Second) {
		n.retries = n.learn()
		n.refused = ""
		n.d = decide(n.facts)
		n.ask(n.d.want)
	}
}

func (n *crowded) ask(want fleet.Amount) {
	if n.quota > 0 && want.MilliCPU > n.quota {
		n.refused = "exceeded quota"
		return
	}
	fits := func(a fleet.Amount) bool { return a.MilliCPU-Own.MilliCPU <= n.room }
	if fits(n.pod.Asked) && !fits(want) {
		n.above = append(n.above, int(n.now.Sub(n.start).Minutes()))
	}
	pod := *n.pod
	pod.Asked, pod.Pending = want, fleet.Said{}
	if fits(want) {
		pod.Granted = want
	} else {
		pod.Pending = fleet.Said{Reason: corev1.PodReasonDeferred, Message: "no room"}
	}
	n.pod = &pod
}

// expect compares what is asked for, beside Own, and what is said.
func (n *crowded) expect(t *testing.T, when string, milliCPU int64, reasons ...string) {
	t.Helper()
	var got []string
	for _, s := range n.shares {
		reason := "?"
		if said := n.d.said[s.UID]; said != nil {
			reason = said.Reason
		}
		got = append(got, reason)
	}
	if asked := n.d.want.MilliCPU - Own.MilliCPU; asked != milliCPU {
		t.Errorf("%s: asks for %d, want %d", when, asked, milliCPU)
	}
	if diff := cmp.Diff(reasons, got); diff != "" {
		t.Errorf("%s: says (-want +got):\n%s", when, diff)
	}
}

const (
	reserved = v1alpha1.ReasonReserved
	deferred = v1alpha1.ReasonDeferred
	backOff  = v1alpha1.ReasonResizeBackOff
)

// What the kubelet does not grant keeps Pods from the node as long as it is asked for. So it is
// given up, and asked for again more and more seldom, each time only until the kubelet answers.
// What has room is not kept waiting by it.
func TestWhatIsNotGrantedIsGivenUp(t *testing.T) {
	n := newCrowded(300, shares(100, 5000, 50))
	n.run(forbearance)
	n.expect(t, "within the patience", 5150, deferred, deferred, deferred)
	n.run(2 * time.Minute)
	n.expect(t, "after it", 150, reserved, backOff, reserved)
	n.run(4*time.Hour - time.Minute)
	// After 5, 10, 20, 40 and 60 minutes.
	if diff := cmp.Diff([]int{0, 10, 20, 40, 80, 140, 201}, n.above); diff != "" {
		t.Errorf("asked for more than there is at minutes (-want +got):\n%s", diff)
	}
	n.expect(t, "hours later", 150, reserved, backOff, reserved)
	n.room = 6000
	n.run(lastRetry + time.Minute)
	n.expect(t, "Pods have left", 5150, reserved, reserved, reserved)
	if len(n.retries.denied) > 0 || len(n.retries.refusals) > 0 {
		t.Errorf("remembered: %+v", n.retries)
	}
}

// What has left makes room at once, without a wait for the time of the retry.
func TestRoomThatOthersLeave(t *testing.T) {
	n := newCrowded(300, shares(100, 150, 150))
	n.run(forbearance + time.Minute)
	n.expect(t, "two of three", 250, reserved, reserved, backOff)
	n.shares = slices.Delete(n.shares, 0, 1)
	n.run(time.Minute)
	n.expect(t, "the oldest has left", 300, reserved, reserved)
}

// What the API server refuses when it is asked for again keeps nothing else waiting.
func TestARetryThatTheAPIServerRefuses(t *testing.T) {
	all := shares(100, 5000, 50)
	n := newCrowded(300, all[:2])
	n.run(forbearance + time.Minute)
	n.quota = 1000
	n.run(30 * time.Minute)
	n.shares = all
	n.run(time.Minute)
	n.expect(t, "a small one has come", 150, reserved, backOff, reserved)
}

// Changes all the time do not keep a node full.
func TestRequestsThatChangeAllTheTime(t *testing.T) {
	n := newCrowded(300, shares(100, 5000))
	for n.now.Before(n.start.Add(forbearance + time.Minute)) {
		n.run(10 * time.Second)
		changed := *n.shares[1]
		changed.Amount.MilliCPU++
		n.shares[1] = &changed
	}
	n.expect(t, "after the patience", 100, reserved, backOff)
}

// A manager that starts knows nothing of what was given up: it asks once, and gives up again.
func TestGivenUpOverARestart(t *testing.T) {
	n := newCrowded(300, shares(100, 5000))
	n.run(time.Hour)
	n.retries, n.above = retries{}, nil
	n.run(forbearance + time.Minute)
	n.expect(t, "after the patience", 100, reserved, backOff)
	if len(n.above) > 2 { // with all, and alone
		t.Errorf("asked for more than there is at minutes %v", n.above)
	}
}

// One that does not fit on the node, or has ended, is not asked for again.
func TestGivenUpAndGone(t *testing.T) {
	n := newCrowded(300, shares(100, 5000))
	n.run(forbearance + time.Minute)
	ended := *n.shares[1]
	ended.Phase = corev1.PodSucceeded
	n.shares[1], n.above = &ended, nil
	n.run(3 * time.Hour)
	if len(n.above) > 0 || len(n.retries.denied) > 0 || !n.retries.next(n.now).IsZero() {
		t.Errorf("asked at minutes %v, remembered: %+v", n.above, n.retries)
	}
}

// A node is looked at when the patience is over, whatever happens on it meanwhile.
func TestGivenUpWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shims := fleet.NewShims("system")
		index, pods := fleet.NewIndex(fleet.NewLedger(shims), shims), newPods()
		nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "large", UID: "1", ResourceVersion: "1"}}
		nw.Spec.NodeName = "n1"
		nw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: requirements("5", "1Gi")}}
		index.Observe(nw)
		pod := reservingPod("n1")
		pod.Spec.Containers[0].Resources = requirements("5001m", "1032Mi")
		own := requirements("1m", "8Mi")
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, Resources: &own}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
		pods.Observe(pod, false)

		r, start := NewReconciler(nil, index, fleet.NewNodes(), pods, "system"), time.Now()
		var next earliest
		for looks := 0; decide(r.gather("n1", time.Now(), &next)).want != Own; looks++ {
			if next.after == 0 || looks > 10 {
				t.Fatalf("look %d, the next after %s", looks, next.after)
			}
			time.Sleep(next.after)
			next = earliest{}
		}
		if took := time.Since(start); took != forbearance {
			t.Errorf("given up after %s, want %s", took, forbearance)
		}
	})
}
