// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// counts is how often something was seen, by its name.
type counts map[string]int

func (c counts) add(other counts) {
	for name, n := range other {
		c[name] += n
	}
}

// The differences on purpose (docs/kubelet-differences.md), by name. Each rule
// takes away no more than what it names.
const (
	// HookCancelled: a preStop hook whose time is over is cancelled here and told
	// in an event; the kubelet lets it run on, and what it says comes later.
	HookCancelled = "overrunning preStop hook is cancelled"
	// KillOrder: the kubelet takes the kills of a sync from a map. The shim's plan is
	// put into the order that the map had.
	KillOrder = "order of serial kills is that of the template"
	// BackoffKept: back-off is kept over a restart of the agent; for the
	// comparison it is dropped as the kubelet's is.
	BackoffKept = "back-off outlives the agent (dropped to compare)"
	// HookHost: a hook's request goes to the sandbox of its container; the kubelet's
	// goes to the pod's newest one, also when the container is in another. The
	// comparison of a scenario ends where one of the two has no address any more.
	HookHost = "hook goes to the sandbox of its container"
	// LostLog: the end of a log that is gone is not read again for 30 s, and then the
	// error is in other words.
	LostLog = "the last words from a log that is gone"
	// NoIPText: the kubelet's error prints its own data structures.
	NoIPText = "error text of a hook without a pod IP"
)

// longestHook is how long a hook of the generator can take, in seconds: two
// requests, over HTTPS and over HTTP, and what rounding adds. What a container says
// later is of another hook.
const longestHook = 2*45.2 + 0.001

const cancelledMessage = "PreStopHook not completed in grace period, cancelled"

// cancelledHooks takes away the shim's events of cancelled hooks, and for each
// what the same container's hook still did in the kubelet after that moment: a
// request over plain HTTP, and one event.
func cancelledHooks(kubelet, shim []step, declared counts) ([]step, []step) {
	kubelet, shim = cloneSteps(kubelet), cloneSteps(shim)
	both := map[fakecri.Entry]bool{}
	for i := range shim {
		for _, e := range shim[i].Trace {
			both[e] = true
		}
	}
	killed := map[string]float64{}
	for i := range shim {
		shim[i].Trace = slices.DeleteFunc(shim[i].Trace, func(e fakecri.Entry) bool {
			if e.Op == "Event" && strings.HasPrefix(e.Detail, "Normal Killing ") {
				killed[e.Container] = e.T
			}
			// A hook that had no time at all should not have run.
			if e.Op != "Event" || !strings.Contains(e.Detail, cancelledMessage) || e.T < killed[e.Container]+1 {
				return false
			}
			declared[HookCancelled]++
			until := killed[e.Container] + longestHook
			late := func(k fakecri.Entry) bool { return !both[k] && isLate(k, e, until) }
			if fallback := fallbackOf(kubelet, e); fallback != "" {
				dropFirst(kubelet, func(k fakecri.Entry) bool { return late(k) && k.Op == "HTTPRequest" && k.Detail == fallback })
			}
			dropFirst(kubelet, func(k fakecri.Entry) bool { return late(k) && lateEvent(k) })
			return true
		})
	}
	return kubelet, shim
}

// isLate tells whether something may be what a hook says after it was cancelled.
func isLate(k, cancelled fakecri.Entry, until float64) bool {
	return k.T > cancelled.T && k.T <= until && (k.Container == cancelled.Container || k.Container == "")
}

const unreadableLog = `message="Error on reading termination message from logs: `

// withoutLostLogs takes away the termination messages of containers whose log the
// kubelet could not read in the same step.
func withoutLostLogs(kubelet, shim []step, declared counts) ([]step, []step) {
	kubelet, shim = cloneSteps(kubelet), cloneSteps(shim)
	for i := range min(len(kubelet), len(shim)) {
		lost := map[string]bool{}
		for _, e := range kubelet[i].Trace {
			if id, _, _ := strings.Cut(e.Detail, " "); e.Op == "Observed" && strings.Contains(e.Detail, unreadableLog) {
				lost[id] = true
				declared[LostLog]++
			}
		}
		for _, trace := range [][]fakecri.Entry{kubelet[i].Trace, shim[i].Trace} {
			for j, e := range trace {
				if id, _, _ := strings.Cut(e.Detail, " "); e.Op == "Observed" && lost[id] {
					trace[j].Detail, _, _ = strings.Cut(e.Detail, " message=")
				}
			}
		}
	}
	return kubelet, shim
}

// fallbackOf is the request over plain HTTP that follows the last one over HTTPS
// that a container's hook had made when it was cancelled; empty if it made none.
func fallbackOf(steps []step, cancelled fakecri.Entry) string {
	last := ""
	for _, s := range steps {
		for _, e := range s.Trace {
			if e.Op == "HTTPRequest" && e.Container == cancelled.Container && e.T <= cancelled.T {
				last = e.Detail
			}
		}
	}
	rest, ok := strings.CutPrefix(last, "GET https:")
	if !ok {
		return ""
	}
	// What is secret does not go over plain HTTP.
	words := strings.Fields("GET http:" + rest)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "Authorization=") }), " ")
}

func lateEvent(e fakecri.Entry) bool {
	return e.Op == "Event" && (strings.Contains(e.Detail, "PreStopHook failed") || strings.Contains(e.Detail, "LifecycleHTTPFallback"))
}

func dropFirst(steps []step, drop func(fakecri.Entry) bool) {
	for i := range steps {
		if at := slices.IndexFunc(steps[i].Trace, drop); at >= 0 {
			steps[i].Trace = slices.Delete(steps[i].Trace, at, at+1)
			return
		}
	}
}

func cloneSteps(steps []step) []step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Trace = slices.Clone(out[i].Trace)
	}
	return out
}

func readySandboxes(trace []fakecri.Entry) (n int) {
	for _, e := range trace {
		if e.Op == "Observed" && strings.HasPrefix(e.Detail, "sandbox ") && strings.HasSuffix(e.Detail, " SANDBOX_READY") {
			n++
		}
	}
	return n
}

func toEitherSandbox(e fakecri.Entry, declared counts) fakecri.Entry {
	if strings.Contains(e.Detail, "//"+fakecri.SecondIP) || strings.Contains(e.Detail, "hook "+fakecri.SecondIP) {
		declared[HookHost]++
		e.Detail = strings.ReplaceAll(e.Detail, fakecri.SecondIP, fakecri.PodIP)
	}
	return e
}

// noIP begins an error text that goes on with the kubelet's data structures.
const noIP = "failed to find networking container: "

func withoutStructures(e fakecri.Entry, declared counts) fakecri.Entry {
	if before, _, found := strings.Cut(e.Detail, noIP); found {
		declared[NoIPText]++
		e.Detail = before + noIP
	}
	return e
}

// words are those of the first line that differs, of both sides; none where one
// of them has nothing more.
func (d *difference) words() (kubelet, shim []string) {
	i := d.first()
	if i == len(d.Kubelet) || i == len(d.Shim) {
		return nil, nil
	}
	return strings.Fields(d.Kubelet[i]), strings.Fields(d.Shim[i])
}

// onlyOneAsks tells whether of one container's hook one side sends the request
// where on the other the preStop hook fails.
func onlyOneAsks(asks, fails []string) bool {
	return len(asks) >= 4 && len(fails) >= 5 && asks[0] == fails[0] && asks[2] == fails[2] &&
		asks[1] == "HTTPRequest" && fails[1] == "Event" && fails[4] == "FailedPreStopHook"
}

// sandboxIsGone tells whether a step differs first in this: the kubelet sends the
// request of a preStop hook, and here the hook fails, because the sandbox of that
// container is not ready. before is what the runtime had when the step began.
func (d *difference) sandboxIsGone(before []string) bool {
	k, s := d.words()
	return onlyOneAsks(k, s) && slices.ContainsFunc(sandboxesOf(k[2], before), func(id string) bool {
		return !slices.ContainsFunc(before, func(other string) bool {
			return strings.HasPrefix(other, "sandbox "+id+" ") && strings.Contains(other, "SANDBOX_READY")
		})
	})
}

// newestHasNoAddress tells whether a step differs first in this: here the request
// of a preStop hook goes to the ready sandbox of its container, and in the
// kubelet the hook fails, because there is a newer sandbox, which is not ready.
func (d *difference) newestHasNoAddress(before []string, trace []fakecri.Entry) bool {
	k, s := d.words()
	if !onlyOneAsks(s, k) || !strings.Contains(s[4], "//"+fakecri.PodIP) {
		return false
	}
	var newest, own []string
	own = sandboxesOf(s[2], before)
	for _, e := range trace {
		words := strings.Fields(e.Detail)
		if e.Op != "Observed" || words[0] != "sandbox" {
			continue
		}
		if newest == nil {
			newest = words
		}
		if slices.Contains(own, words[1]) {
			return newest[1] != words[1] && words[3] == "SANDBOX_READY" && newest[3] == "SANDBOX_NOTREADY"
		}
	}
	return false
}

// sandboxesOf are those in which a container had instances that had not exited.
func sandboxesOf(name string, state []string) (ids []string) {
	for _, line := range state {
		words := strings.Fields(line)
		if words[0] == "container" && strings.HasPrefix(words[1], name+"-") && !strings.Contains(line, "CONTAINER_EXITED") {
			ids = append(ids, words[3])
		}
	}
	return ids
}

func isResize(e fakecri.Entry) bool {
	return e.Op == "Result" && strings.HasPrefix(e.Detail, "ResizePodInPlace ")
}
