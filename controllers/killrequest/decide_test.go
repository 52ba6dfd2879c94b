// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// away begins the names of nodes whose shims do not respond.
const away = "z"

// shareOn is a NodeWorkload of a node that was there before the request; reported is how far
// the request k is there, "" where the node does not have it.
func shareOn(node string, reported v1alpha1.RequestPhase) *fleet.Share {
	nw := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: "w-" + node, CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)), Labels: map[string]string{v1alpha1.LabelRevision: "r1"}},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: node},
	}
	if reported != "" {
		nw.Spec.Requests = []v1alpha1.NodeRequest{{ID: "k-uid", Name: "k"}}
		nw.Status.Requests = []v1alpha1.NodeRequestStatus{{ID: "k-uid", Name: "k", Phase: reported, Message: string("on " + node)}}
	}
	s := fleet.ShareOf(nw, nil)
	return s
}

func newFacts(edit func(*v1alpha1.KillRequestSpec), shares ...*fleet.Share) *facts {
	f := &facts{
		kr: &v1alpha1.KillRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "k", UID: "k-uid", CreationTimestamp: metav1.NewTime(epoch)},
			Spec:       v1alpha1.KillRequestSpec{WorkloadName: "w", Nodes: v1alpha1.RequestNodes{All: true}, Action: v1alpha1.RequestRestart},
		},
		mw: &v1alpha1.ManagedWorkload{}, shares: shares, unavailable: map[string]bool{}, now: epoch.Add(time.Second),
		given:  map[string]*v1alpha1.RequestNodeState{},
		labels: func(node string) map[string]string { return map[string]string{"zone": node[:1]} },
		// A shim whose node is named for that is away.
		responds: func(s *fleet.Share) bool { return !strings.HasPrefix(s.Node, away) },
	}
	if edit != nil {
		edit(&f.kr.Spec)
	}
	return f
}

// begins are the nodes that get the request next, and the status then.
func begins(t *testing.T, f *facts) (nodes string, st v1alpha1.KillRequestStatus) {
	t.Helper()
	targets, err := f.targets()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range f.next(targets) {
		names = append(names, targets[i].node)
	}
	return strings.Join(names, " "), f.status(targets)
}

// kubectl wait sees the end of a request, and a stop that is carried out and then not any more.
func TestConditions(t *testing.T) {
	t.Parallel()
	f := newFacts(nil)
	of := func(phase v1alpha1.RequestPhase) string {
		f.kr.Status.Conditions = f.conditions(phase, "m")
		f.now = f.now.Add(time.Minute)
		var said []string
		for _, c := range f.kr.Status.Conditions {
			said = append(said, fmt.Sprintf("%s=%s since %s", c.Type, c.Status, c.LastTransitionTime.Sub(epoch)))
		}
		return strings.Join(said, ", ")
	}
	for _, tt := range []struct {
		phase v1alpha1.RequestPhase
		want  string
	}{
		{v1alpha1.RequestInProgress, ""},
		{v1alpha1.RequestHeld, "Held=True since 1m1s"},
		{v1alpha1.RequestHeld, "Held=True since 1m1s"},
		{v1alpha1.RequestInProgress, "Held=False since 3m1s"},
		{v1alpha1.RequestSucceeded, "Complete=True since 4m1s, Held=False since 3m1s"},
		{v1alpha1.RequestFailed, "Complete=False since 5m1s, Failed=True since 5m1s, Held=False since 3m1s"},
	} {
		if got := of(tt.phase); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.phase, got, tt.want)
		}
	}
}

func TestChosenNodes(t *testing.T) {
	t.Parallel()
	young := shareOn("b2", "")
	young.Created = epoch.Add(time.Minute)
	shares := []*fleet.Share{shareOn("b1", ""), shareOn("a1", ""), young}
	tests := map[string]struct {
		edit func(*v1alpha1.KillRequestSpec)
		want string
	}{
		"all that are there": {nil, "a1 b1"},
		"a stop follows":     {func(s *v1alpha1.KillRequestSpec) { s.Action = v1alpha1.RequestStop }, "a1 b1 b2"},
		"by label": {func(s *v1alpha1.KillRequestSpec) {
			s.Nodes = v1alpha1.RequestNodes{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "b"}}}
		}, "b1"},
		"by name and label": {func(s *v1alpha1.KillRequestSpec) {
			s.Nodes = v1alpha1.RequestNodes{Names: []string{"a1"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "b"}}}
		}, "a1 b1"},
		"in order": {func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestOrdered }, "a1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, st := begins(t, newFacts(tt.edit, shares...)); got != tt.want || st.Phase != v1alpha1.RequestPending {
				t.Errorf("begins with %q, want %q; %s", got, tt.want, st.Phase)
			}
		})
	}
}

// One node after another: the next when the one before is done, none after one has failed,
// unless failures are ignored.
func TestOrderOfNodes(t *testing.T) {
	t.Parallel()
	ordered := func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestOrdered }
	for phase, want := range map[v1alpha1.RequestPhase]string{
		v1alpha1.RequestInProgress: "", v1alpha1.RequestSucceeded: "b", v1alpha1.RequestFailed: "",
	} {
		if got, _ := begins(t, newFacts(ordered, shareOn("a", phase), shareOn("b", ""))); got != want {
			t.Errorf("a is %s: begins with %q, want %q", phase, got, want)
		}
	}
	f := newFacts(ordered, shareOn("a", v1alpha1.RequestFailed), shareOn("b", ""))
	if _, st := begins(t, f); st.Phase != v1alpha1.RequestFailed || st.FailedNodes != 2 || st.CompletionTime == nil ||
		st.Message != "0 of 2 nodes done, 2 failed: node a: on a" {
		t.Errorf("after a failure: %+v", st)
	}
	f.kr.Spec.FailurePolicy = v1alpha1.RequestIgnore
	if got, st := begins(t, f); got != "b" || st.CompletionTime != nil {
		t.Errorf("failures ignored: begins with %q, %+v", got, st)
	}
}

// Within the budget of a roll-out those that are unavailable need none of it, and a node whose
// shim is away is waited for.
func TestBudget(t *testing.T) {
	t.Parallel()
	f := newFacts(func(s *v1alpha1.KillRequestSpec) { s.Order = v1alpha1.RequestRollOut },
		shareOn("a", ""), shareOn("b", ""), shareOn("c", ""), shareOn(away, ""))
	f.unavailable["c"] = true
	for room, want := range map[int]string{-1: "c", 0: "c", 1: "a c", 2: "a b c", 9: "a b c"} {
		f.room = room
		if got, _ := begins(t, f); got != want {
			t.Errorf("room for %d: begins with %q, want %q", room, got, want)
		}
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	stop := func(s *v1alpha1.KillRequestSpec) { s.Action = v1alpha1.RequestStop }
	tests := map[string]struct {
		f    *facts
		want v1alpha1.RequestPhase
		over bool
	}{
		"done":             {newFacts(nil, shareOn("a", v1alpha1.RequestSucceeded)), v1alpha1.RequestSucceeded, true},
		"half done":        {newFacts(nil, shareOn("a", v1alpha1.RequestSucceeded), shareOn("b", "")), v1alpha1.RequestInProgress, false},
		"held":             {newFacts(stop, shareOn("a", v1alpha1.RequestHeld)), v1alpha1.RequestHeld, false},
		"held, one failed": {newFacts(stop, shareOn("a", v1alpha1.RequestHeld), shareOn("b", v1alpha1.RequestFailed)), v1alpha1.RequestHeld, false},
		"nothing to hold":  {newFacts(stop), v1alpha1.RequestHeld, false},
		"nothing there":    {newFacts(nil), v1alpha1.RequestFailed, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, st := begins(t, tt.f); st.Phase != tt.want || (st.CompletionTime != nil) != tt.over {
				t.Errorf("phase %s, complete at %v", st.Phase, st.CompletionTime)
			}
		})
	}
}

// What cannot be carried out on a node fails there, but a stop holds what comes later.
func TestNodesThatCannot(t *testing.T) {
	t.Parallel()
	named := func(s *v1alpha1.KillRequestSpec) { s.Nodes = v1alpha1.RequestNodes{Names: []string{"a"}} }
	ended, deleting, other := shareOn("a", ""), shareOn("a", ""), shareOn("a", "")
	ended.Phase, deleting.Deleted = corev1.PodFailed, epoch
	for name, f := range map[string]*facts{
		"not there": newFacts(named), "ended": newFacts(named, ended), "deleting": newFacts(named, deleting),
	} {
		if _, st := begins(t, f); st.Phase != v1alpha1.RequestFailed {
			t.Errorf("%s: %+v", name, st)
		}
		f.kr.Spec.Action = v1alpha1.RequestStop
		if _, st := begins(t, f); st.Phase != v1alpha1.RequestHeld {
			t.Errorf("%s, stop: %+v", name, st)
		}
	}
	f := newFacts(func(s *v1alpha1.KillRequestSpec) { s.Precondition = &v1alpha1.RequestPrecondition{Revision: "r2"} }, other)
	if got, st := begins(t, f); got != "" || st.Phase != v1alpha1.RequestFailed {
		t.Errorf("another revision: begins with %q, %+v", got, st)
	}
	f.kr.Spec.Precondition.Revision = "r1" // it is on its way to that
	if got, st := begins(t, f); got != "" || st.Phase != v1alpha1.RequestPending {
		t.Errorf("the revision, not carried out: begins with %q, %+v", got, st)
	}
	other.TemplateHash = other.SpecHash
	if got, _ := begins(t, f); got != "a" {
		t.Errorf("the revision: begins with %q", got)
	}
}

// After the deadline what is not done has failed, and what is done stays done.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f := newFacts(func(s *v1alpha1.KillRequestSpec) { s.ActiveDeadlineSeconds = new(int64(60)) },
		shareOn("a", v1alpha1.RequestSucceeded), shareOn("b", v1alpha1.RequestInProgress), shareOn("c", ""))
	targets, err := f.targets()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := begins(t, f); got != "c" || f.wake(targets, 1) < 58*time.Second || f.wake(targets, 1) > time.Minute || f.wake(targets, 0) != turnRetry {
		t.Errorf("begins with %q, wakes after %v, or %v while c waits", got, f.wake(targets, 1), f.wake(targets, 0))
	}
	f.now = epoch.Add(time.Minute)
	if got, st := begins(t, f); got != "" || st.Phase != v1alpha1.RequestFailed || st.DoneNodes != 1 || st.FailedNodes != 2 {
		t.Errorf("begins with %q, %+v", got, st)
	}
}

// What the deadline fails on a node has failed for the containers that are not done there, too,
// whatever the shim says after that. What the cache has of them stays.
func TestContainersAfterTheDeadline(t *testing.T) {
	t.Parallel()
	share := shareOn("a", v1alpha1.RequestInProgress)
	reported := []v1alpha1.RequestContainerState{
		{Name: "done", Phase: v1alpha1.RequestSucceeded, Message: "restarted", ContainerID: "1"},
		{Name: "killed", Phase: v1alpha1.RequestInProgress, ContainerID: "2"},
		{Name: "waits", Phase: v1alpha1.RequestPending, Message: "waits for the start of the container"},
	}
	share.Requests.Status[0].Containers = slices.Clone(reported)
	f := newFacts(func(s *v1alpha1.KillRequestSpec) { s.ActiveDeadlineSeconds = new(int64(60)) }, share)
	f.now = epoch.Add(time.Minute)
	_, st := begins(t, f)
	const late = "not done before the deadline"
	want := []v1alpha1.RequestContainerState{
		reported[0], {Name: "killed", Phase: v1alpha1.RequestFailed, Message: late, ContainerID: "2"}, {Name: "waits", Phase: v1alpha1.RequestFailed, Message: late},
	}
	if diff := cmp.Diff(want, st.NodeStates[0].Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reported, share.Requests.Status[0].Containers); diff != "" {
		t.Errorf("containers of the cache (-before +after):\n%s", diff)
	}
}

// The status names the nodes that a person looks for, and is bounded.
func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	shares := []*fleet.Share{}
	for i := range 300 {
		shares = append(shares, shareOn(string(rune('a'+i/26))+string(rune('a'+i%26)), v1alpha1.RequestSucceeded))
	}
	shares = append(shares, shareOn("zz", v1alpha1.RequestFailed))
	_, st := begins(t, newFacts(nil, shares...))
	if len(st.NodeStates) != maxNodeStates || st.NodeStates[0].NodeName != "zz" || st.Nodes != 301 {
		t.Errorf("%d nodes, the first %+v", len(st.NodeStates), st.NodeStates[0])
	}
}

// A node gets the request as it is, with the template that the revision stands for.
func TestEntry(t *testing.T) {
	t.Parallel()
	share := shareOn("a", "")
	share.SpecHash = "hash"
	f := newFacts(func(s *v1alpha1.KillRequestSpec) {
		s.RequestedBy, s.Reason, s.Containers, s.FailurePolicy = "alice", "leaks", []string{"app"}, v1alpha1.RequestIgnore
		s.Precondition, s.ActiveDeadlineSeconds = &v1alpha1.RequestPrecondition{Revision: "r1", ContainerID: "c1"}, new(int64(60))
	}, share)
	got := f.entry(&target{share: share})
	if got.ID != "k-uid" || got.RequestedBy != "alice" || got.Reason != "leaks" || !slices.Equal(got.Containers, []string{"app"}) || !got.IgnoreFailures ||
		got.TemplateHash != "hash" || got.ContainerID != "c1" || !got.Deadline.Time.Equal(epoch.Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
}

// However much shims say, etcd takes the status, and the nodes that failed have their details.
func TestLargeStatus(t *testing.T) {
	t.Parallel()
	var shares []*fleet.Share
	for i := range 1000 {
		s := shareOn(fmt.Sprintf("%0250d", i), v1alpha1.RequestInProgress)
		s.Requests.Status[0].Message = strings.Repeat("<", 1000)
		for c := range 64 {
			s.Requests.Status[0].Containers = append(s.Requests.Status[0].Containers, v1alpha1.RequestContainerState{
				Name: fmt.Sprintf("c%d", c), ContainerID: strings.Repeat("i", 250), Message: strings.Repeat("\"", 1000),
			})
		}
		shares = append(shares, s)
	}
	shares[900].Requests.Status[0].Phase = v1alpha1.RequestFailed
	_, st := begins(t, newFacts(nil, shares...))
	data, err := json.Marshal(st)
	if err != nil || len(data) > 512<<10 {
		t.Errorf("the status has %d bytes, %v", len(data), err)
	}
	if first := st.NodeStates[0]; first.NodeName != shares[900].Node || len(first.Containers) != maxContainerStates || st.Nodes != 1000 || len(st.NodeStates) != maxNodeStates {
		t.Errorf("the first of %d is %s with %d containers", len(st.NodeStates), first.NodeName, len(first.Containers))
	}
}

// A shim that says nothing is waited for while it may not have come to the request.
func TestSilentShims(t *testing.T) {
	t.Parallel()
	asked := func(node string, change func(*fleet.Share)) *fleet.Share {
		s := shareOn(node, v1alpha1.RequestPending)
		s.Requests.Status = nil
		if change != nil {
			change(s)
		}
		return s
	}
	tests := map[string]struct {
		share *fleet.Share
		since time.Duration
		fails bool
	}{
		"for long":            {asked("a", nil), patience, true},
		"not for long":        {asked("a", nil), patience - 1, false},
		"it is away":          {asked(away, nil), time.Hour, false},
		"it is busy":          {asked("a", func(s *fleet.Share) { s.Generation++ }), time.Hour, false},
		"its runtime is away": {asked("a", func(s *fleet.Share) { s.Waiting.Reason = "RuntimeNotReady" }), time.Hour, false},
		"a template comes": {asked("a", func(s *fleet.Share) {
			s.Requests.Spec[0].TemplateHash, s.TemplateHash = "hash", "other"
		}), time.Hour, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts(nil, tt.share)
			f.silentSince = map[string]time.Time{tt.share.Node: f.now.Add(-tt.since)}
			if _, st := begins(t, f); (st.Phase == v1alpha1.RequestFailed) != tt.fails {
				t.Errorf("%+v", st)
			}
			// A stop that failed would not hold what comes of a shim that was only busy.
			f.kr.Spec.Action = v1alpha1.RequestStop
			_, st := begins(t, f)
			if st.Phase != v1alpha1.RequestPending || strings.Contains(st.NodeStates[0].Message, "did not take the request") != tt.fails {
				t.Errorf("a stop: %+v", st)
			}
			if targets, _ := f.targets(); tt.fails && f.wake(targets, 0) != 0 {
				t.Error("a stop that waits is looked at without end")
			}
		})
	}
}

// Of two NodeWorkloads on a node the request is about the one that has it.
func TestTwoNodeWorkloadsOnANode(t *testing.T) {
	t.Parallel()
	older, has := shareOn("a", ""), shareOn("a", v1alpha1.RequestSucceeded)
	older.Created, has.Name = older.Created.Add(-time.Hour), "second"
	for _, shares := range [][]*fleet.Share{{older, has}, {has, older}} {
		if got, st := begins(t, newFacts(nil, shares...)); got != "" || st.Phase != v1alpha1.RequestSucceeded || st.Nodes != 1 {
			t.Errorf("begins with %q, %+v", got, st)
		}
	}
}

// What a node reports is its word: nothing of it reaches a terminal as a command.
func TestShownStatesCommandNoTerminal(t *testing.T) {
	const hostile, want = "a\x1b[2Jb\u202e", `a\u001b[2Jb\u202e`
	targets := []target{{message: hostile, containers: []v1alpha1.RequestContainerState{{Name: hostile, Message: hostile, ContainerID: hostile}}}}
	state := nodeStates(targets)[0]
	if c := state.Containers[0]; state.Message != want || c.Name != want || c.Message != want || c.ContainerID != want {
		t.Errorf("%+v, want %s everywhere", state, want)
	}
	if targets[0].containers[0].Name != hostile {
		t.Error("the report itself was changed")
	}
}
