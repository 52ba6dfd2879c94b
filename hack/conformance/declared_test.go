// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"testing"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

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
