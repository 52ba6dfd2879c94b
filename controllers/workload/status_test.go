// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

var (
	alive   = fleet.ShimState{Reason: v1alpha1.ReasonLeaseRenewed}
	noShim  = fleet.ShimState{Reason: v1alpha1.ReasonShimNotFound}
	expired = fleet.ShimState{Reason: v1alpha1.ReasonLeaseExpired}

	oldTemplate     = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}
	currentTemplate = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:2"}}}}
	currentHash     = template.Hash(&currentTemplate)
	accepted        = admission.Verdict{Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: "the template is accepted"}
)

// on describes a node whose shim reported phase and ready about the current
// template.
func on(name string, phase corev1.PodPhase, ready bool, change ...func(*viewed)) nodeView {
	v := view(name, phase, ready, change...)
	v.share = fleet.ShareOf(v.nodeWorkload, nil)
	return v.nodeView
}

// reported is the NodeWorkload of such a node.
func reported(name string, phase corev1.PodPhase, ready bool, change ...func(*viewed)) *v1alpha1.NodeWorkload {
	return view(name, phase, ready, change...).nodeWorkload
}

// viewed is a nodeView before its NodeWorkload is summarised.
type viewed struct {
	nodeView

	nodeWorkload *v1alpha1.NodeWorkload
}

func view(name string, phase corev1.PodPhase, ready bool, change ...func(*viewed)) viewed {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	n := viewed{nodeView: nodeView{name: name, shim: alive}, nodeWorkload: &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: placement.NodeWorkloadName("web", name), Generation: 2},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: name, Template: currentTemplate},
		Status: v1alpha1.NodeWorkloadStatus{
			ObservedGeneration: 2, TemplateHash: currentHash, Phase: phase, Summary: string(phase),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}},
		},
	}}
	for _, f := range change {
		f(&n)
	}
	return n
}

func shim(s fleet.ShimState) func(*viewed) { return func(n *viewed) { n.shim = s } }

func outdated(n *viewed) {
	n.nodeWorkload.Spec.Template = oldTemplate
	n.nodeWorkload.Status.TemplateHash = template.Hash(&oldTemplate)
}

type others struct{ Current, Unavailable, Misscheduled int32 }

type counts struct{ Desired, Updated, Ready, Available, Unreachable int32 }

func TestComputeStatus(t *testing.T) {
	running, succeeded, failed := corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	refused := admission.Verdict{Reason: v1alpha1.ReasonRefusedFields, Message: "spec.template.spec.x: Forbidden: no"}
	tests := map[string]struct {
		facts       facts
		want        counts
		wantReady   string // "status reason"
		wantSummary string
		wantKstatus string
		wantStalled string
		// wantOthers is checked where it is set.
		wantOthers others
	}{
		"no matching nodes": {
			facts: facts{}, wantReady: "True NoMatchingNodes", wantSummary: "no matching nodes", wantKstatus: "Current",
		},
		"no matching nodes any more": {
			facts:     facts{leaving: []nodeView{on("n1", running, true)}},
			wantReady: "True NoMatchingNodes", wantSummary: "no matching nodes; ending on 1 node", wantKstatus: "InProgress",
		},
		"one drained": {
			facts: facts{desired: []nodeView{on("n1", running, true)}, drained: []string{"n2"}},
			want:  counts{1, 1, 1, 1, 0}, wantReady: "True AllNodesReady", wantSummary: "ready; 1 node drained", wantKstatus: "Current",
		},
		"all drained": {
			facts: facts{drained: []string{"n1"}}, wantReady: "True NodesDrained", wantSummary: "1 node drained", wantKstatus: "Current",
		},
		"one drained and one not ready": {
			facts: facts{desired: []nodeView{on("n1", running, false)}, drained: []string{"n2"}},
			want:  counts{1, 1, 0, 0, 0}, wantReady: "False NodesNotReady", wantSummary: "1 node not ready; 1 node drained", wantKstatus: "InProgress",
		},
		"just created": {
			facts: facts{desired: []nodeView{{name: "n1", shim: alive}, {name: "n2", shim: alive}}},
			want:  counts{Desired: 2}, wantReady: "False Updating", wantSummary: "updating 0/2", wantKstatus: "InProgress",
		},
		"all ready": {
			facts: facts{desired: []nodeView{on("n1", running, true), on("n2", running, true)}},
			want:  counts{2, 2, 2, 2, 0}, wantReady: "True AllNodesReady", wantSummary: "ready", wantKstatus: "Current",
		},
		"one not ready": {
			facts: facts{desired: []nodeView{on("n1", running, true), on("n2", running, false)}},
			want:  counts{2, 2, 1, 1, 0}, wantReady: "False NodesNotReady", wantSummary: "1 node not ready", wantKstatus: "InProgress",
		},
		"one outdated and still ready": {
			facts: facts{desired: []nodeView{on("n1", running, true), on("n2", running, true, outdated)}},
			want:  counts{2, 1, 2, 2, 0}, wantReady: "False Updating", wantSummary: "updating 1/2", wantKstatus: "InProgress",
		},
		"updated in the spec only": {
			facts: facts{desired: []nodeView{on("n1", running, true, func(n *viewed) { n.nodeWorkload.Status.TemplateHash = "old" })}},
			want:  counts{1, 0, 1, 1, 0}, wantReady: "False Updating", wantSummary: "updating 0/1", wantKstatus: "InProgress",
		},
		"the shim has not seen the current generation": {
			facts: facts{desired: []nodeView{on("n1", running, true, func(n *viewed) { n.nodeWorkload.Generation = 3 })}},
			want:  counts{1, 0, 1, 1, 0}, wantReady: "False Updating", wantSummary: "updating 0/1", wantKstatus: "InProgress",
		},
		"being replaced": {
			facts: facts{desired: []nodeView{on("n1", running, true, func(n *viewed) { n.nodeWorkload.DeletionTimestamp = &metav1.Time{Time: managertest.Epoch} })}},
			want:  counts{1, 0, 1, 1, 0}, wantReady: "False Updating", wantSummary: "updating 0/1", wantKstatus: "InProgress",
		},
		"one without a shim": {
			facts: facts{desired: []nodeView{on("n1", running, true), on("n2", "", false, shim(noShim))}},
			want:  counts{2, 1, 1, 1, 1}, wantReady: "True AllNodesReady", wantSummary: "ready; 1 node without a shim", wantKstatus: "Current",
		},
		"no shim at all": {
			facts: facts{desired: []nodeView{on("n1", "", false, shim(noShim)), on("n2", "", false, shim(noShim))}},
			want:  counts{Desired: 2, Unreachable: 2}, wantReady: "False ShimNotFound", wantSummary: "2 nodes without a shim", wantKstatus: "InProgress",
		},
		"shims gone silent": {
			facts: facts{desired: []nodeView{on("n1", running, true, shim(expired)), on("n2", "", false, shim(noShim))}},
			want:  counts{Desired: 2, Unreachable: 2}, wantReady: "False LeaseExpired", wantSummary: "1 node without a shim; 1 node not responding", wantKstatus: "InProgress",
		},
		"still where it should not run": {
			facts: facts{desired: []nodeView{on("n1", running, true), {name: "n2", shim: alive}}, misscheduled: []string{"n3", "n4", "n5"}},
			want:  counts{2, 1, 1, 1, 0}, wantReady: "False Updating", wantSummary: "updating 1/2", wantKstatus: "InProgress",
			wantOthers: others{Current: 1, Unavailable: 1, Misscheduled: 3},
		},
		"all completed": {
			facts: facts{desired: []nodeView{on("n1", succeeded, false), on("n2", succeeded, false)}},
			want:  counts{2, 2, 0, 0, 0}, wantReady: "True Completed", wantSummary: "completed", wantKstatus: "Current",
		},
		"completed and running": {
			facts: facts{desired: []nodeView{on("n1", succeeded, false), on("n2", running, true)}},
			want:  counts{2, 2, 1, 1, 0}, wantReady: "True AllNodesReady", wantSummary: "ready", wantKstatus: "Current",
		},
		"failed for good": {
			facts: facts{desired: []nodeView{on("n1", failed, false), on("n2", running, true)}},
			want:  counts{2, 2, 1, 1, 0}, wantReady: "False Failed", wantSummary: "failed on 1 node", wantKstatus: "Failed", wantStalled: "Failed",
		},
		"failed with an earlier template": {
			facts: facts{desired: []nodeView{on("n1", failed, false, outdated)}},
			want:  counts{Desired: 1}, wantReady: "False Updating", wantSummary: "updating 0/1", wantKstatus: "InProgress",
		},
		"failed here, updating there": {
			facts: facts{desired: []nodeView{on("n1", failed, false), on("n2", running, true, outdated)}},
			want:  counts{2, 1, 1, 1, 0}, wantReady: "False Updating", wantSummary: "updating 1/2", wantKstatus: "InProgress",
		},
		"refused, runs an earlier one": {
			facts: facts{verdict: refused, desired: []nodeView{on("n1", running, true, outdated)}},
			want:  counts{1, 0, 1, 1, 0}, wantReady: "False RefusedFields", wantSummary: "refused: RefusedFields", wantKstatus: "Failed", wantStalled: "RefusedFields",
		},
		"the API server cannot be asked": {
			facts: facts{verdict: admission.Verdict{Undecided: true, Reason: reasonAdmissionPending, Message: "no route"}, desired: []nodeView{{name: "n1", shim: alive}}},
			want:  counts{Desired: 1}, wantReady: "False AdmissionPending", wantSummary: "waiting for admission", wantKstatus: "InProgress",
		},
		"name taken": {
			facts: facts{desired: []nodeView{on("n1", running, true), {name: "n2", shim: alive, conflict: "NodeWorkload web-n2 is another's"}}},
			want:  counts{2, 1, 1, 1, 0}, wantReady: "False NameConflict", wantSummary: "name conflict on 1 node", wantKstatus: "Failed", wantStalled: "NameConflict",
		},
		"ending on a node that no longer matches": {
			facts: facts{desired: []nodeView{on("n1", running, true)}, leaving: []nodeView{on("n2", running, true)}},
			want:  counts{1, 1, 1, 1, 0}, wantReady: "True AllNodesReady", wantSummary: "ready; ending on 1 node", wantKstatus: "InProgress",
		},
		"a lost node does not hold up the others": {
			facts: facts{desired: []nodeView{on("n1", running, true)}, leaving: []nodeView{on("n2", running, true, shim(expired))}},
			want:  counts{1, 1, 1, 1, 0}, wantReady: "True AllNodesReady", wantSummary: "ready; ending on 1 node", wantKstatus: "Current",
		},
		"deleting": {
			facts: facts{deleting: true, leaving: []nodeView{on("n1", running, true), on("n2", running, true, shim(noShim))}},
			want:  counts{}, wantReady: "False Terminating", wantSummary: "deleting, 2 nodes left, 1 unreachable", wantKstatus: "Terminating",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.generation, f.hash, f.now, f.deadline = 5, currentHash, managertest.Epoch, time.Minute
			if f.verdict.Reason == "" {
				f.verdict = accepted
			}
			status, _, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{ObservedGeneration: -1})
			got := counts{status.DesiredNodes, status.UpdatedNodes, status.ReadyNodes, status.AvailableNodes, status.UnreachableNodes}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOthers, others{status.CurrentNodes, status.UnavailableNodes, status.MisscheduledNodes}); diff != "" && tc.wantOthers != (others{}) {
				t.Errorf("further counts (-want +got):\n%s", diff)
			}
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if diff := cmp.Diff(tc.wantReady, string(ready.Status)+" "+ready.Reason); diff != "" {
				t.Errorf("Ready (-want +got):\n%s\n%s", diff, ready.Message)
			}
			if diff := cmp.Diff(tc.wantSummary, status.Summary); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Generation: 5}, Status: status}
			if f.deleting {
				mw.DeletionTimestamp = &metav1.Time{Time: managertest.Epoch}
			}
			if got := managertest.Kstatus(mw); got != tc.wantKstatus {
				t.Errorf("kstatus = %s, want %s", got, tc.wantKstatus)
			}
			checkConditions(t, status.Conditions, tc.wantStalled)
		})
	}
}

// checkConditions holds for every state.
func checkConditions(t *testing.T, conditions []metav1.Condition, wantStalled string) {
	t.Helper()
	stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	if (stalled.Status == metav1.ConditionTrue) != (wantStalled != "") || wantStalled != "" && stalled.Reason != wantStalled {
		t.Errorf("Stalled = %s %s, want %q", stalled.Status, stalled.Reason, wantStalled)
	}
	is := func(kind string) bool { return meta.IsStatusConditionTrue(conditions, kind) }
	if is(v1alpha1.ConditionStalled) && (is(v1alpha1.ConditionReconciling) || is(v1alpha1.ConditionReady)) {
		t.Error("Stalled together with Reconciling or Ready")
	}
	if !is(v1alpha1.ConditionStalled) && !is(v1alpha1.ConditionReconciling) && !is(v1alpha1.ConditionReady) {
		t.Error("none of Ready, Reconciling and Stalled is True")
	}
	for _, c := range conditions {
		if c.Reason == "" || c.Message == "" || c.ObservedGeneration != 5 || c.LastTransitionTime.IsZero() {
			t.Errorf("incomplete condition: %+v", c)
		}
	}
}

// A workload that was ended says why, not how one of its containers left.
func TestFailureOfTheWhole(t *testing.T) {
	n := on("n1", corev1.PodFailed, false, func(n *viewed) {
		n.nodeWorkload.Status.Summary, n.nodeWorkload.Status.Reason, n.nodeWorkload.Status.Message = "Completed", "DeadlineExceeded", "too long"
	})
	f := facts{generation: 5, verdict: accepted, now: managertest.Epoch, hash: currentHash, desired: []nodeView{n}}
	status, _, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{})
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if want := "Failed on n1, DeadlineExceeded: too long; will not restart"; ready.Message != want {
		t.Errorf("message %q, want %q", ready.Message, want)
	}
}

// Before the manager has seen a generation, kstatus says so.
func TestKstatusOfUnseenGenerations(t *testing.T) {
	f := facts{generation: 5, verdict: accepted, now: managertest.Epoch, hash: currentHash, desired: []nodeView{on("n1", corev1.PodRunning, true)}}
	status, _, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{})
	for name, mw := range map[string]*v1alpha1.ManagedWorkload{
		"new":     {ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: v1alpha1.ManagedWorkloadStatus{ObservedGeneration: -1}},
		"changed": {ObjectMeta: metav1.ObjectMeta{Generation: 6}, Status: status},
	} {
		if got := managertest.Kstatus(mw); got != "InProgress" {
			t.Errorf("%s: kstatus = %s, want InProgress", name, got)
		}
	}
}

// The deadline counts from the last progress that the manager remembers, whatever the
// status says: people may write it.
func TestProgressDeadline(t *testing.T) {
	const progressDeadline = 10 * time.Minute
	var status v1alpha1.ManagedWorkloadStatus
	var known rollout.Progress
	at := func(minutes int, desired ...nodeView) (stalled bool, wait time.Duration) {
		f := facts{generation: 5, verdict: accepted, hash: currentHash, now: managertest.Epoch.Add(time.Duration(minutes) * time.Minute), desired: desired, progress: known, deadline: progressDeadline}
		for i := range desired {
			if n := &desired[i]; n.share != nil && n.ready() {
				f.rolled.Available++
			} else {
				f.rolled.Left++
			}
		}
		status, known, wait = computeStatus(&f, &status)
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		return c.Status == metav1.ConditionTrue && c.Reason == reasonProgressDeadlineExceeded, wait
	}
	expect := func(what string, minutes int, wantStalled bool, wantWait time.Duration, desired ...nodeView) {
		t.Helper()
		if stalled, wait := at(minutes, desired...); stalled != wantStalled || wait != wantWait {
			t.Errorf("%s: stalled %v, wait %s, want %v, %s", what, stalled, wait, wantStalled, wantWait)
		}
	}
	n1, n2, waiting := on("n1", corev1.PodRunning, true), on("n2", corev1.PodPending, false), nodeView{name: "n1", shim: alive}

	expect("at the start", 0, false, progressDeadline, waiting, n2)
	expect("after 7 min", 7, false, 3*time.Minute, waiting, n2)
	expect("progress", 9, false, progressDeadline, n1, n2)
	expect("3 min after progress", 12, false, 7*time.Minute, n1, n2)
	for i := range status.Conditions { // as somebody may who may write the status
		status.Conditions[i].LastTransitionTime = metav1.NewTime(managertest.Epoch.Add(-time.Hour))
	}
	status.ReadyNodes, status.UpdatedNodes = 0, 0
	expect("4 min after progress, with another status", 13, false, 6*time.Minute, n1, n2)
	expect("10 min after progress", 19, true, 0, n1, n2)
	if want := "stalled: 1 node not ready"; status.Summary != want {
		t.Errorf("STATUS %q, want %q", status.Summary, want)
	}
	if got := managertest.Kstatus(&v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Generation: 5}, Status: status}); got != "Failed" {
		t.Errorf("kstatus %s", got)
	}
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
	expect("without progress, with another status", 30, true, 0, n1, n2)
	known = rollout.Progress{} // the manager restarts
	expect("a new manager starts the deadline again", 31, false, progressDeadline, n1, n2)
	expect("and keeps to it", 41, true, 0, n1, n2)
	expect("ready", 42, false, 0, n1, on("n2", corev1.PodRunning, true))
	expect("not ready for the first time since", 60, false, 0, n1, n2)
	expect("which is no matter of the roll-out", 90, false, 0, n1, n2)
}

// Whatever keeps containers of a first revision from starting, STATUS and the reasons of the conditions are the
// same: only the message of Ready names it.
func TestWhatAFirstRevisionLacksChangesNoWordsButItsOwn(t *testing.T) {
	prepares := []string{"ContainerCreating", "NodePorts"} // before anything of the template runs
	lacks := func(reason string) nodeView {
		return on("n1", corev1.PodPending, false, func(v *viewed) {
			v.nodeWorkload.Status.Summary = "Pending, waiting: " + reason
			if slices.Contains(prepares, reason) {
				v.nodeWorkload.Status.TemplateHash = ""
			}
		})
	}
	words := map[string][]string{}
	for _, reason := range append(prepares, "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError") {
		for _, elapsed := range []time.Duration{0, time.Hour} {
			f := facts{
				generation: 5, verdict: accepted, hash: currentHash, now: managertest.Epoch, desired: []nodeView{lacks(reason)}, deadline: 10 * time.Minute,
			}
			f.rolled.Left = 1
			status, known, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{})
			f.progress, f.now = known, f.now.Add(elapsed)
			status, _, _ = computeStatus(&f, &status)
			said := status.Summary
			for _, c := range status.Conditions {
				said += "; " + c.Type + "=" + string(c.Status) + " " + c.Reason
			}
			words[elapsed.String()] = append(words[elapsed.String()], said)
			if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, reason) {
				t.Errorf("Ready says %q, want it to name %s", ready.Message, reason)
			}
		}
	}
	for elapsed, all := range words {
		if len(slices.Compact(slices.Clone(all))) != 1 {
			t.Errorf("after %s: %q", elapsed, all)
		}
	}
}

func TestSummaryAndMessagesAreBounded(t *testing.T) {
	f := facts{generation: 5, now: managertest.Epoch, verdict: admission.Verdict{Reason: v1alpha1.ReasonRefusedFields, Message: strings.Repeat("spec.template.spec.x: Forbidden; ", 2000)}}
	status, _, _ := computeStatus(&f, &v1alpha1.ManagedWorkloadStatus{})
	if len(status.Summary) > maxSummary {
		t.Errorf("summary has %d bytes", len(status.Summary))
	}
	for _, c := range status.Conditions {
		if len(c.Message) > 32768 {
			t.Errorf("message of %s has %d bytes", c.Type, len(c.Message))
		}
	}
}

// The STATUS column leaves out what does not fit, the last part first, and says so.
func TestSummaryFits(t *testing.T) {
	for summary, want := range map[string]string{
		"ready": "ready",
		"5000 nodes without a shim; 5000 nodes not responding":                      "5000 nodes without a shim; 5000 nodes not responding",
		"ready; 4999 nodes not updated; 12 nodes not responding; ending on 3 nodes": "ready; 4999 nodes not updated; ...",
		"updating 4999/5000; 12 nodes without a shim; 12 nodes not responding":      "updating 4999/5000; 12 nodes without a shim; ...",
		strings.Repeat("x", 60):         strings.Repeat("x", 50) + "...",
		"a; " + strings.Repeat("x", 60): "a; ...",
	} {
		if got := fitting(summary); got != want {
			t.Errorf("%q becomes %q, want %q", summary, got, want)
		}
	}
}
