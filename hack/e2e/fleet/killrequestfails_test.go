// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// noRestart keeps a container that has ended twice down for as long as a test takes.
const noRestart = "restartBackoff: {baseSeconds: 300}"

// spoil has every further start of the container on a node fail: it cannot count its runs.
func (w *workload) spoil(node string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, node+".runs"), []byte("none"), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// After a node has failed no other is begun, unless failures are ignored.
func requestFails(t *testing.T) {
	w := startRolledOut(t, noRestart)
	before := w.instances()
	first, bad, rest := names()[0], names()[1], names()[2:]
	w.spoil(bad)
	kr := w.ask("fail", everywhere, "order: Ordered")
	w.kubectl("wait", "kr/fail", "--for=condition=Failed", "--timeout="+harness.Timeout.String())
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestFailed)
	want := map[string]outcome{first: restarted(before[first]), bad: ended(before[bad])}
	for _, node := range rest {
		want[node] = outcome{Phase: v1alpha1.RequestFailed, Message: "not begun: node " + bad + " failed"}
	}
	wantOutcomes(t, kr, want)
	w.AwaitRequestEvent(kr, corev1.EventTypeWarning, "Failed", "1 of 5 nodes done, 4 failed: node "+bad+": "+want[bad].Message)
	w.wantKills(kr, before, first, bad)
	for _, node := range rest {
		if got := w.Journal(node); len(got) != 1 {
			t.Errorf("%s was not to be touched: %q", node, harness.Texts(got))
		}
	}

	between := w.instances()
	kr = w.ask("ignore", everywhere, "order: Ordered", "failurePolicy: Ignore")
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestFailed)
	const down = "the container does not run"
	want = map[string]outcome{bad: {Phase: v1alpha1.RequestFailed, Message: "container c: " + down, Container: v1alpha1.RequestFailed, ContainerMessage: down}}
	for _, node := range append(rest, first) {
		want[node] = restarted(between[node])
	}
	wantOutcomes(t, kr, want)
	if down := w.downAtOnce(0); down != 2 {
		t.Errorf("at most %d containers were down at once, want the one that cannot start and one more", down)
	}
}

// What a request has broken takes up the budget: the other nodes wait for it until the
// deadline, although failures are ignored. Then the request has failed, and is deleted when its
// time is over.
func requestIsLate(t *testing.T) {
	w := startRolledOut(t, noRestart)
	before, processes := w.instances(), w.processes()
	bad, rest := names()[0], names()[1:]
	w.spoil(bad)
	const seconds = 30 // a busy machine needs many of them until the others wait
	kr := w.ask("late", everywhere, "order: RollOut", "failurePolicy: Ignore", fmt.Sprintf("activeDeadlineSeconds: %d", seconds), "ttlSecondsAfterFinished: 3")
	env.AwaitRequest(t, kr, "the others wait", func() bool {
		waiting := 0
		for _, n := range kr.Status.NodeStates {
			if n.Message == "waits for maxUnavailable of the ManagedWorkload" {
				waiting++
			}
		}
		return waiting == len(rest) && kr.Status.FailedNodes == 1
	})
	env.AwaitRequestPhase(t, kr, v1alpha1.RequestFailed)
	if left := kr.CreationTimestamp.Add(seconds * time.Second).Sub(kr.Status.CompletionTime.Time); left > 0 {
		t.Errorf("it is over %s before its deadline", left)
	}
	want := map[string]outcome{bad: ended(before[bad])}
	for _, node := range rest {
		want[node] = outcome{Phase: v1alpha1.RequestFailed, Message: "not done before the deadline"}
	}
	wantOutcomes(t, kr, want)
	w.AwaitRequestEvent(kr, corev1.EventTypeWarning, "Failed", "0 of 5 nodes done, 5 failed: node "+bad+": "+want[bad].Message)
	w.wantKills(kr, before, bad)
	w.wantSame(processes, rest...)
	for gone := false; !gone; time.Sleep(50 * time.Millisecond) {
		at := time.Now()
		err := env.Kube.Get(t.Context(), client.ObjectKeyFromObject(kr), &v1alpha1.KillRequest{})
		gone = apierrors.IsNotFound(err)
		if kept := at.Sub(kr.Status.CompletionTime.Time); gone && kept < 3*time.Second || kept > harness.Timeout {
			t.Fatalf("%s after its end: %v, want it to be deleted after 3s", kept, err)
		}
	}
}
