// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"testing"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// A hook that only the shim can send, because the kubelet asks a newer sandbox
// that is not ready, is declared; what looks like it is not.
func TestHookOfTheOlderSandbox(t *testing.T) {
	const (
		ready    = "SANDBOX_READY"
		notReady = "SANDBOX_NOTREADY"
	)
	failed := fakecri.Entry{T: 7, Op: "Event", Container: "app", Detail: `Warning FailedPreStopHook spec.containers{app} "PreStopHook failed"`}
	sent := fakecri.Entry{T: 7, Op: "HTTPRequest", Container: "app", Detail: "GET http://" + fakecri.PodIP + ":8080/prestop/app"}
	with := func(e fakecri.Entry, change func(*fakecri.Entry)) fakecri.Entry {
		change(&e)
		return e
	}
	tests := map[string]struct {
		newest, own   string
		inNewest      bool
		exited        bool
		kubelet, shim fakecri.Entry
		wantDeclared  bool
	}{
		"the newest is not ready":         {newest: notReady, own: ready, kubelet: failed, shim: sent, wantDeclared: true},
		"the newest is ready":             {newest: ready, own: ready, kubelet: failed, shim: sent},
		"its own is not ready":            {newest: notReady, own: notReady, kubelet: failed, shim: sent},
		"it is in the newest":             {newest: notReady, own: ready, inNewest: true, kubelet: failed, shim: sent},
		"it has exited":                   {newest: notReady, own: ready, exited: true, kubelet: failed, shim: sent},
		"the shim's is the one to fail":   {newest: notReady, own: ready, kubelet: sent, shim: failed},
		"the shim asks another address":   {newest: notReady, own: ready, kubelet: failed, shim: with(sent, func(e *fakecri.Entry) { e.Detail = "GET http://10.1.1.1:8080/prestop/app" })},
		"the hooks are of two containers": {newest: notReady, own: ready, kubelet: with(failed, func(e *fakecri.Entry) { e.Container = "other" }), shim: sent},
		"the times differ":                {newest: notReady, own: ready, kubelet: failed, shim: with(sent, func(e *fakecri.Entry) { e.T = 8 })},
		"another event":                   {newest: notReady, own: ready, kubelet: with(failed, func(e *fakecri.Entry) { e.Detail = "Warning Failed spec.containers{app} x" }), shim: sent},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			own, state := "sandbox-0", "CONTAINER_RUNNING"
			if test.inNewest {
				own = "sandbox-1"
			}
			if test.exited {
				state = "CONTAINER_EXITED"
			}
			observed := []fakecri.Entry{
				{T: 7, Op: "Observed", Detail: "sandbox sandbox-1 attempt=1 " + test.newest},
				{T: 7, Op: "Observed", Detail: "sandbox sandbox-0 attempt=0 " + test.own},
			}
			before := step{State: []string{
				`sandbox sandbox-0 attempt=0 SANDBOX_READY ip="10.0.0.7"`, "container app-0 in " + own + " attempt=0 " + state,
			}}
			declared := counts{}
			d := compare(
				[]step{before, {Trace: append(slices.Clone(observed), test.kubelet)}},
				[]step{before, {Trace: append(slices.Clone(observed), test.shim)}}, declared)
			if got := d == nil && declared[HookHost] > 0; got != test.wantDeclared {
				t.Errorf("declared: %t, want %t; difference %v", got, test.wantDeclared, d)
			}
		})
	}
}

// What a cancelled hook says late in the kubelet is taken away, and no failure of
// a hook of the same container that ran long after it.
func TestLateEventOfACancelledHook(t *testing.T) {
	for _, test := range []struct {
		begun, late float64
		want        bool
	}{
		{10, 16, true}, {855.8, 946.2, true}, {10, 102, false}, {10, 700, false},
	} {
		killing := fakecri.Entry{T: test.begun, Op: "Event", Container: "app", Detail: `Normal Killing spec.containers{app} "x"`}
		cancelled := fakecri.Entry{T: test.begun + 5, Op: "Event", Container: "app", Detail: "Warning FailedPreStopHook " + cancelledMessage}
		late := fakecri.Entry{T: test.late, Op: "Event", Container: "app", Detail: `Warning FailedPreStopHook spec.containers{app} "PreStopHook failed"`}
		d := compare([]step{{Trace: []fakecri.Entry{killing, late}}}, []step{{Trace: []fakecri.Entry{killing, cancelled}}}, counts{})
		if got := d == nil; got != test.want {
			t.Errorf("an event at %g s of a kill that began at %g s is taken away: %t, want %t", test.late, test.begun, got, test.want)
		}
	}
}

// What the kubelet changes of a pod that it has killed is taken away, and nothing
// of one that lives on.
func TestResizeOfAKilledPod(t *testing.T) {
	result := func(what string) fakecri.Entry { return fakecri.Entry{Op: "Result", Detail: what + `  ""`} }
	stop := fakecri.Entry{Op: "StopContainer", Container: "app", Detail: `app-0 timeout=2 error=""`}
	update := fakecri.Entry{Op: "UpdateContainerResources", Container: "app", Detail: `app-0 shares=51`}
	other := fakecri.Entry{Op: "UpdateContainerResources", Container: "web", Detail: `web-0 shares=51`}
	tests := map[string]struct {
		kubelet, shim []fakecri.Entry
		want          bool
	}{
		"killed":             {[]fakecri.Entry{stop, update, result("KillPodSandbox"), result("ResizePodInPlace")}, []fakecri.Entry{stop, result("KillPodSandbox")}, true},
		"and it failed":      {[]fakecri.Entry{stop, result("KillPodSandbox"), result("ResizePodInPlace ResizePodInPlaceError")}, []fakecri.Entry{stop, result("KillPodSandbox")}, true},
		"lives on":           {[]fakecri.Entry{update, result("ResizePodInPlace")}, nil, false},
		"in a new sandbox":   {[]fakecri.Entry{stop, update, result("KillPodSandbox"), result("CreatePodSandbox"), result("ResizePodInPlace")}, []fakecri.Entry{stop, result("KillPodSandbox"), result("CreatePodSandbox")}, false},
		"one that was not":   {[]fakecri.Entry{stop, other, result("KillPodSandbox"), result("ResizePodInPlace")}, []fakecri.Entry{stop, result("KillPodSandbox")}, false},
		"the shim resizes":   {[]fakecri.Entry{stop, update, result("KillPodSandbox"), result("ResizePodInPlace")}, []fakecri.Entry{stop, result("KillPodSandbox"), result("ResizePodInPlace")}, false},
		"the shim alone":     {[]fakecri.Entry{stop, result("KillPodSandbox")}, []fakecri.Entry{stop, update, result("KillPodSandbox"), result("ResizePodInPlace")}, false},
		"a container's kill": {[]fakecri.Entry{stop, update, result("KillContainer"), result("ResizePodInPlace")}, []fakecri.Entry{stop, result("KillContainer")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := compare([]step{{Trace: test.kubelet}}, []step{{Trace: test.shim}}, counts{})
			if got := d == nil; got != test.want {
				t.Errorf("taken away: %t, want %t; %v", got, test.want, d)
			}
		})
	}
}

// A message from a log that the kubelet cannot read is taken away, of that
// container and in that step.
func TestMessageOfALostLog(t *testing.T) {
	observed := func(id, message string) step {
		return step{Trace: []fakecri.Entry{{Op: "Observed", Container: "app", Detail: id + ` exited message="` + message + `"`}}}
	}
	const lost = "Error on reading termination message from logs: gone"
	tests := map[string]struct {
		kubelet, shim []step
		want          bool
	}{
		"lost":                {[]step{observed("app-0", lost)}, []step{observed("app-0", "words")}, true},
		"another container's": {[]step{observed("app-0", lost)}, []step{observed("app-1", "words")}, false},
		"other words":         {[]step{observed("app-0", "x")}, []step{observed("app-0", "words")}, false},
		"only here":           {[]step{observed("app-0", "words")}, []step{observed("app-0", lost)}, false},
		"later":               {[]step{observed("app-0", lost), observed("app-0", "x")}, []step{observed("app-0", lost), observed("app-0", "words")}, false},
	}
	for name, test := range tests {
		if got := compare(test.kubelet, test.shim, counts{}) == nil; got != test.want {
			t.Errorf("%s: taken away: %t, want %t", name, got, test.want)
		}
	}
}

// What fails in parallel is compared without its order.
func TestFailuresOfAKill(t *testing.T) {
	killed := func(text string) []step {
		return []step{{Trace: []fakecri.Entry{{Op: "Result", Detail: "killed=false " + text}}}}
	}
	for text, want := range map[string]bool{
		`[failed to "A" for "b", failed to "A" for "a"]`:       true,
		`[failed to "A" for "a", failed to "A" for "b"]`:       true,
		"failed to \"A\" for \"a\"\nfailed to \"A\" for \"b\"": false,
		`[failed to "A" for "a"]`:                              false,
	} {
		if got := compare(killed(`[failed to "A" for "a", failed to "A" for "b"]`), killed(text), counts{}) == nil; got != want {
			t.Errorf("%s is as the kubelet's: %t, want %t", text, got, want)
		}
	}
}

// What is reset is removed in an order, and so is what lies in one sandbox.
func TestOrderOfRemovals(t *testing.T) {
	removed := func(names ...string) (trace []fakecri.Entry) {
		for _, name := range names {
			trace = append(trace, fakecri.Entry{Op: "RemoveContainer", Container: name[:3], Detail: name})
		}
		return trace
	}
	result := func(detail string) fakecri.Entry { return fakecri.Entry{Op: "Result", Detail: detail} }
	for _, test := range []struct {
		what          string
		kubelet, shim []fakecri.Entry
		same          bool
	}{
		{"prune, other names", removed("one-1", "two-1"), removed("two-1", "one-1"), true},
		{"prune, one name", removed("one-1", "one-0"), removed("one-0", "one-1"), false},
		{"reset", append(removed("one-1", "two-1"), result("RemoveContainer x")), append(removed("two-1", "one-1"), result("RemoveContainer x")), false},
		{
			"garbage", slices.Concat(removed("one-1"), []fakecri.Entry{{Op: "RemovePodSandbox"}}, []fakecri.Entry{result("collected=true")}),
			slices.Concat([]fakecri.Entry{{Op: "RemovePodSandbox"}}, removed("one-1"), []fakecri.Entry{result("collected=true")}), false,
		},
		{"garbage, other names", append(removed("one-1", "two-1"), result("collected=true")), append(removed("two-1", "one-1"), result("collected=true")), true},
	} {
		if got := compare([]step{{Trace: test.kubelet}}, []step{{Trace: test.shim}}, counts{}) == nil; got != test.same {
			t.Errorf("%s: the order does not count: %t, want %t", test.what, got, test.same)
		}
	}
}
