// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

var start = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func micro(after time.Duration) *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(start.Add(after)))
}

// record is a kill that ended in time.
func record(id string, after time.Duration) v1alpha1.KillRecord {
	return v1alpha1.KillRecord{
		ID: id, Container: "app", Trigger: v1alpha1.TriggerLivenessProbe, RequestedBy: "shim",
		Message: "Container app failed liveness probe, will be restarted", Phase: v1alpha1.KillPhaseDone,
		Grace:   v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod, UsedSeconds: 7},
		PreStop: &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded, Seconds: 4}, StopSignal: "SIGTERM",
		StopTimeoutSeconds: ptr.To[int64](26), Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: ptr.To[int32](0),
		StartTime: *micro(after), StopTime: micro(after + 4*time.Second), FinishTime: micro(after + 7*time.Second),
	}
}

func on(node string, kills ...v1alpha1.KillRecord) v1alpha1.NodeWorkload {
	nw := v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web-" + node}}
	nw.Spec.NodeName, nw.Status.Kills = node, kills
	return nw
}

// TestWords shows what is said about each kind of end.
func TestWords(t *testing.T) {
	edits := []struct {
		name string
		edit func(*v1alpha1.KillRecord)
	}{
		{"graceful", func(*v1alpha1.KillRecord) {}},
		{"forced", func(k *v1alpha1.KillRecord) {
			k.Outcome, k.ExitCode, k.Grace.UsedSeconds = v1alpha1.KillOutcomeForced, ptr.To[int32](137), 30
		}},
		{"out of memory meanwhile", func(k *v1alpha1.KillRecord) { k.ExitCode, k.Reason = ptr.To[int32](137), "OOMKilled" }},
		{"already stopped", func(k *v1alpha1.KillRecord) {
			k.Outcome, k.ExitCode, k.PreStop, k.StopTime = v1alpha1.KillOutcomeAlreadyStopped, ptr.To[int32](3), nil, nil
		}},
		{"ended during its hook", func(k *v1alpha1.KillRecord) {
			k.Outcome, k.ExitCode, k.ExitedDuring = v1alpha1.KillOutcomeAlreadyStopped, ptr.To[int32](137), v1alpha1.KillPhasePreStop
		}},
		{"failed", func(k *v1alpha1.KillRecord) {
			k.Outcome, k.Error = v1alpha1.KillOutcomeFailed, "context deadline exceeded"
		}},
		{"not known", func(k *v1alpha1.KillRecord) { k.Outcome, k.Error = "", "the container was removed meanwhile" }},
		{"changed by a person", func(k *v1alpha1.KillRecord) {
			k.Trigger, k.RequestedBy, k.ChangedFields = v1alpha1.TriggerDefinitionChanged, "kubectl-edit", []string{"image", "env"}
			k.Message = "Container app definition changed, will be restarted"
		}},
		{"cut", func(k *v1alpha1.KillRecord) {
			k.Trigger, k.Grace.Source, k.Grace.Seconds = v1alpha1.TriggerTermination, v1alpha1.GraceSourceDeletion, 12
			k.Grace.ShortenedFromSeconds, k.Grace.ShortenedToSeconds = ptr.To[int64](60), ptr.To[int64](5)
		}},
		{"hook runs", func(k *v1alpha1.KillRecord) {
			k.Phase, k.Outcome, k.ExitCode, k.StopTime, k.FinishTime, k.PreStop.Outcome = v1alpha1.KillPhasePreStop, "", nil, nil, nil, ""
		}},
		{"hook failed", func(k *v1alpha1.KillRecord) { k.PreStop.Outcome = v1alpha1.PreStopFailed }},
		{"hook cut off", func(k *v1alpha1.KillRecord) { k.PreStop.Outcome = v1alpha1.PreStopTimedOut }},
		{"hook cut off by an outage", func(k *v1alpha1.KillRecord) { k.PreStop.Outcome, k.PreStop.Seconds = v1alpha1.PreStopTimedOut, 0 }},
		{"hook of a kill that has ended", func(k *v1alpha1.KillRecord) { k.PreStop.Outcome, k.PreStop.Seconds = "", 0 }},
		{"hook skipped", func(k *v1alpha1.KillRecord) { k.PreStop.Outcome = v1alpha1.PreStopSkipped }},
		{"waits", func(k *v1alpha1.KillRecord) {
			k.Phase, k.Outcome, k.ExitCode, k.StopTime, k.FinishTime = v1alpha1.KillPhaseWaitingForTurn, "", nil, nil, nil
		}},
		{"stopping", func(k *v1alpha1.KillRecord) {
			k.Phase, k.Outcome, k.ExitCode, k.FinishTime, k.StopSignal = v1alpha1.KillPhaseStopping, "", nil, nil, ""
		}},
		{"a trigger of a later version", func(k *v1alpha1.KillRecord) { k.Trigger, k.Message = "Whim", "" }},
	}
	var b strings.Builder
	for _, e := range edits {
		k := record(e.name, 0)
		e.edit(&k)
		end := Collect(nil, []v1alpha1.NodeWorkload{on("n1", k)})[0]
		fmt.Fprintf(&b, "%s:\n  %s\n    %s\n", e.name, end.Summary, strings.Join(end.Words, "\n    "))
	}
	golden(t, "words.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// Each kill is there once, the newest first, by the manager's clock where that is known,
// and kills of NodeWorkloads that are gone too.
func TestCollect(t *testing.T) {
	one := on("n1", record("late", 3*time.Minute), record("early", time.Minute))
	one.Status.LastExit = &v1alpha1.ContainerExit{Container: "app", ExitCode: 3, Summary: "exit 3", FinishTime: ptr.To(metav1.NewTime(start.Add(2 * time.Minute)))}
	ahead := on("n2", record("ahead", time.Hour))
	mw := &v1alpha1.ManagedWorkload{}
	mw.Status.RecentKills = []v1alpha1.NodeKillRecord{
		{NodeName: "n1", NodeWorkload: "web-n1", KillRecord: record("late", 3*time.Minute)},
		{NodeName: "n2", NodeWorkload: "web-n2", KillRecord: record("ahead", time.Hour), ObservedTime: micro(90 * time.Second)},
		{NodeName: "n3", NodeWorkload: "web-n3", KillRecord: record("late", 0)},
	}
	all := Collect(mw, []v1alpha1.NodeWorkload{one, ahead})
	tests := map[string]struct {
		filter   Filter
		want     []string
		wantLeft Omitted
	}{
		"all":                           {want: []string{"n1 late", "n1 exit", "n2 ahead", "n1 early", "n3 late"}},
		"node":                          {filter: Filter{Node: "n1"}, want: []string{"n1 late", "n1 exit", "n1 early"}},
		"container":                     {filter: Filter{Container: "other"}},
		"since":                         {filter: Filter{Since: start.Add(2 * time.Minute)}, want: []string{"n1 late", "n1 exit"}, wantLeft: Omitted{Older: 3}},
		"since, by the manager's clock": {filter: Filter{Node: "n2", Since: start.Add(2 * time.Minute)}, wantLeft: Omitted{Older: 1}},
		"since and limit":               {filter: Filter{Node: "n1", Since: start.Add(2 * time.Minute), Limit: 1}, want: []string{"n1 late"}, wantLeft: Omitted{More: 1, Older: 1}},
		"limit":                         {filter: Filter{Limit: 2}, want: []string{"n1 late", "n1 exit"}, wantLeft: Omitted{More: 3}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			selected, left := tc.filter.Select(all)
			var got []string
			for _, e := range selected {
				what := "exit"
				if e.Kill != nil {
					what = e.Kill.ID
				}
				got = append(got, e.Node+" "+what)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || left != tc.wantLeft {
				t.Errorf("left out %+v, want %+v; ends (-want +got):\n%s", left, tc.wantLeft, diff)
			}
		})
	}
}

// An exit whose time is not known is not said to be old.
func TestSelectUnknownTime(t *testing.T) {
	nw := on("n1")
	nw.Status.LastExit = &v1alpha1.ContainerExit{Container: "app", ExitCode: 3}
	if selected, left := (Filter{Since: start}).Select(Collect(nil, []v1alpha1.NodeWorkload{nw})); len(selected) != 1 || left != (Omitted{}) {
		t.Errorf("selected %+v, left out %+v", selected, left)
	}
}

func TestWaits(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because"}
	}
	yes, no, unknown := metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	tests := map[string]struct {
		workload, node []metav1.Condition
		edit           func(*v1alpha1.NodeWorkload)
		want           []string
	}{
		"all is well": {
			workload: []metav1.Condition{condition("Ready", yes, "AllNodesReady"), condition("Stalled", no, "NotStalled"), condition("Reconciling", no, "AllNodesReady"), condition("Accepted", yes, "Accepted")},
			node:     []metav1.Condition{condition("Ready", yes, ""), condition("KillFailing", no, ""), condition("ShimResponding", yes, "LeaseRenewed"), condition("Reserved", yes, "Reserved")},
		},
		"not reserved": {node: []metav1.Condition{condition("Reserved", no, "Deferred")}, want: []string{"n1: Reserved is False, Deferred: because"}},
		"refused once": {
			workload: []metav1.Condition{condition("Accepted", no, "RefusedFields"), condition("Stalled", yes, "RefusedFields")},
			want:     []string{"web: Accepted is False, RefusedFields: because"},
		},
		"a right is missing": {workload: []metav1.Condition{condition("ObjectsAvailable", no, "NoRight")}, want: []string{"web: ObjectsAvailable is False, NoRight: because"}},
		"under way":          {workload: []metav1.Condition{condition("Reconciling", yes, "Updating")}, want: []string{"web: Reconciling is True, Updating: because"}},
		"a node": {
			node: []metav1.Condition{condition("Ready", no, "ContainersNotReady"), condition("ContainersReady", no, "ContainersNotReady"), condition("ShimResponding", unknown, "LeaseExpired"), condition("KillFailing", yes, "Failed"), condition("PodCgroupMissing", unknown, "CgroupNotVisible")},
			edit: func(nw *v1alpha1.NodeWorkload) {
				nw.Status.ContainerStatuses = []corev1.ContainerStatus{
					{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}},
					{Name: "next", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}},
				}
			},
			want: []string{
				"n1: Ready is False, ContainersNotReady: because", "n1: ShimResponding is Unknown, LeaseExpired: because",
				"n1: KillFailing is True, Failed: because", "n1: PodCgroupMissing is Unknown, CgroupNotVisible: because",
				"n1 app: ImagePullBackOff: Back-off pulling image",
			},
		},
		"completed": {node: []metav1.Condition{condition("Ready", no, "PodCompleted")}, edit: func(nw *v1alpha1.NodeWorkload) { nw.Status.Phase = corev1.PodSucceeded }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			mw.Status.Conditions = tc.workload
			nw := on("n1")
			nw.Status.Conditions = tc.node
			if tc.edit != nil {
				tc.edit(&nw)
			}
			var got []string
			for _, w := range Waits(mw, []v1alpha1.NodeWorkload{nw}, "") {
				got = append(got, w.Subject+": "+w.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// Drained nodes run nothing of a workload, which may be Ready: what the status says of them is said once.
func TestWaitsNamesDrainedNodes(t *testing.T) {
	const all, some = "Every node that matches the template's placement is drained: n1, n2", "1 node ready; drained: n2"
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(start)}
	}
	for name, tc := range map[string]struct {
		drained    int32
		conditions []metav1.Condition
		want       []string
	}{
		"no node": {conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, "AllNodesReady", "2 nodes ready")}},
		"all nodes": {
			drained:    2,
			conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, "NodesDrained", all), condition("Reconciling", metav1.ConditionFalse, "NodesDrained", all)},
			want:       []string{"web: Ready is True, NodesDrained: " + all},
		},
		"one of two": {
			drained:    1,
			conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, "AllNodesReady", some)},
			want:       []string{"web: Ready is True, AllNodesReady: " + some},
		},
		"one of two, and the other one is not ready": {
			drained:    1,
			conditions: []metav1.Condition{condition("Ready", metav1.ConditionFalse, "NodesNotReady", "n1; drained: n2"), condition("Reconciling", metav1.ConditionTrue, "NodesNotReady", "n1; drained: n2")},
			want:       []string{"web: Reconciling is True, NodesNotReady: n1; drained: n2"},
		},
		"one of two, and the other one has failed": {
			drained:    1,
			conditions: []metav1.Condition{condition("Ready", metav1.ConditionFalse, "Failed", "failed on n1; drained: n2"), condition("Stalled", metav1.ConditionTrue, "Failed", "failed on n1")},
			want:       []string{"web: Stalled is True, Failed: failed on n1", "web: Ready is False, Failed: failed on n1; drained: n2"},
		},
		"before the first condition": {drained: 1},
	} {
		t.Run(name, func(t *testing.T) {
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			mw.Status.DrainedNodes, mw.Status.Conditions = tc.drained, tc.conditions
			var got []string
			for _, w := range Waits(mw, nil, "") {
				got = append(got, w.Subject+": "+w.Text)
				if w.Since != nil && strings.HasPrefix(w.Text, "Ready") {
					t.Errorf("%s since %s, which is when Ready changed", w.Text, w.Since)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// A kill of processes that belong to no container has a name to be listed under.
func TestKillWithoutAContainer(t *testing.T) {
	e := killed("node-1", "mw-node-1", v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerProcessesLeft, Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeForced,
	}, nil)
	if want := "processes left that the runtime does not know, forced by SIGKILL"; e.Container != "(pod)" || e.Summary != want {
		t.Errorf("%q: %q, want %q", e.Container, e.Summary, want)
	}
}

// A message of the kubelet's may end with a full stop and a space.
func TestWhyIsOneSentence(t *testing.T) {
	k := &v1alpha1.KillRecord{Message: `Usage of EmptyDir volume "a" exceeds the limit "5Mi". `}
	if got, want := why(k), `Requested by the shim: Usage of EmptyDir volume "a" exceeds the limit "5Mi".`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
