// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// difference is the first step at which the two sides differ.
type difference struct {
	Step int
	// Kubelet and Shim are the lines of that step, in canonical order.
	Kubelet, Shim []string
}

// first is the place of the first line that differs.
func (d *difference) first() (i int) {
	for i < len(d.Kubelet) && i < len(d.Shim) && d.Kubelet[i] == d.Shim[i] {
		i++
	}
	return i
}

// removalHangs reports that the kubelet removed several containers in the step, and that
// one of the calls hung.
func (d *difference) removalHangs() bool {
	removals, hangs := 0, false
	for _, line := range d.Kubelet {
		if strings.Contains(line, "RemoveContainer ") {
			removals++
			hangs = hangs || strings.Contains(line, " Hang ")
		}
	}
	return hangs && removals > 1
}

func (d *difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d\n", d.Step)
	i := d.first()
	for _, line := range d.Kubelet[:i] {
		fmt.Fprintf(&b, "          %s\n", line)
	}
	for _, line := range d.Kubelet[i:] {
		fmt.Fprintf(&b, "  kubelet %s\n", line)
	}
	for _, line := range d.Shim[i:] {
		fmt.Fprintf(&b, "  shim    %s\n", line)
	}
	return b.String()
}

// compare returns the first difference that is not declared, nil if there is
// none, and counts the declared ones.
func compare(kubelet, shim []step, declared counts) *difference {
	kubelet, shim = withoutLostLogs(kubelet, shim, declared)
	for i := range max(len(kubelet), len(shim)) {
		k, s := lines(kubelet[i], declared), lines(shim[i], counts{})
		if slices.Equal(k, s) {
			continue
		}
		return &difference{Step: i, Kubelet: k, Shim: s}
	}
	return nil
}

// lines are what is compared of a step.
func lines(s step, declared counts) []string {
	var out []string
	for _, e := range canonical(s.Trace) {
		out = append(out, withoutStructures(sortFailures(sortCauses(e)), declared).String())
	}
	return append(out, s.State...)
}

// sortCauses sorts why memory cannot be taken from containers: the kubelet has
// them in the order in which the runtime lists its statistics.
func sortCauses(e fakecri.Entry) fakecri.Entry {
	before, rest, found := strings.Cut(e.Detail, "cannot decrease memory limits: [")
	causes, after, closed := strings.Cut(rest, "]")
	if !isResize(e) || !found || !closed {
		return e
	}
	list := strings.Split(causes, ", ")
	slices.Sort(list)
	e.Detail = before + "cannot decrease memory limits: [" + strings.Join(list, ", ") + "]" + after
	return e
}

// sortFailures sorts what of a pod could not be killed, which is done in parallel.
func sortFailures(e fakecri.Entry) fakecri.Entry {
	list, found := strings.CutPrefix(e.Detail, "killed=false [")
	if e.Op != "Result" || !found {
		return e
	}
	const begin = "failed to "
	failures := strings.Split(strings.TrimSuffix(list, "]"), ", "+begin)
	failures[0] = strings.TrimPrefix(failures[0], begin)
	slices.Sort(failures)
	e.Detail = "killed=false [" + begin + strings.Join(failures, ", "+begin) + "]"
	return e
}

// canonical puts what has no defined order in one: what is done in parallel, and
// what the kubelet takes from a map within one moment. All else stays as it is.
func canonical(trace []fakecri.Entry) []fakecri.Entry {
	trace = slices.Clone(trace)
	begin := 0
	for i, e := range trace {
		if e.Op == "Observed" {
			begin = i + 1
		}
	}
	has := func(op, detail string) bool {
		return slices.ContainsFunc(trace, func(e fakecri.Entry) bool { return e.Op == op && strings.HasPrefix(e.Detail, detail) })
	}
	switch {
	case has("Result", "collected="):
		trace = collectedInOrder(trace)
	case has("Result", "KillPodSandbox"), has("Result", "killed="):
		sortByTime(trace[begin:max(begin, parallelEnd(trace))])
		sortRuns(trace, func(e fakecri.Entry) bool { return e.Op == "Result" && strings.HasPrefix(e.Detail, "KillContainer") })
		lateHooksLast(trace)
	default:
		lateHooksLast(trace)
	}
	// A reset has an order; purge and prune have one within a name.
	if !has("Result", "RemoveContainer ") {
		sortRuns(trace, func(e fakecri.Entry) bool { return e.Op == "RemoveContainer" })
	}
	return trace
}

// collectedInOrder puts a garbage collection in order. The hooks of kills before it end
// beside it.
func collectedInOrder(trace []fakecri.Entry) []fakecri.Entry {
	var own, earlier []fakecri.Entry
	for _, e := range trace {
		stopped := slices.ContainsFunc(trace, func(s fakecri.Entry) bool { return s.Op == "StopContainer" && s.Container == e.Container })
		if ofPreStopHook(e) && !stopped {
			earlier = append(earlier, e)
		} else {
			own = append(own, e)
		}
	}
	byContainer(own)
	sortByTime(earlier)
	return append(own, earlier...)
}

// ofPreStopHook is whether a hook that outlives its kill may still do this: fail, or
// ask again by HTTP.
func ofPreStopHook(e fakecri.Entry) bool {
	return e.Op == "Event" && strings.Contains(e.Detail, " FailedPreStopHook ") ||
		e.Op == "HTTPRequest" && strings.Contains(e.Detail, "/prestop/")
}

// lateHooksLast puts what hooks do that outlived their kill's grace period last within
// their moment, by container: such a hook runs beside all else, where one that ended in
// time is followed by its StopContainer. So runs a hook that falls back from HTTPS to
// HTTP, and the event about it does not name its container. A request by HTTP in the moment
// of a StopContainer of its container may be of this kill's hook or of an earlier one's.
func lateHooksLast(trace []fakecri.Entry) {
	late := make(map[fakecri.Entry]bool)
	for i, e := range trace {
		stopFollows := slices.ContainsFunc(trace[i:], func(s fakecri.Entry) bool {
			return s.Op == "StopContainer" && s.Container == e.Container && (s.T == e.T || e.Op == "HTTPRequest")
		})
		stopBeside := e.Op == "HTTPRequest" && strings.HasPrefix(e.Detail, "GET http://") &&
			slices.ContainsFunc(trace, func(s fakecri.Entry) bool {
				return s.Op == "StopContainer" && s.Container == e.Container && s.T == e.T
			})
		switch {
		case ofPreStopHook(e) && (!stopFollows || stopBeside), strings.Contains(e.Detail, " LifecycleHTTPFallback "):
			late[e] = true
		}
	}
	slices.SortStableFunc(trace, func(a, b fakecri.Entry) int {
		last := func(e fakecri.Entry) (int, string) {
			if late[e] {
				return 1, e.Container + " " + e.Detail
			}
			return 0, ""
		}
		lastA, whatA := last(a)
		lastB, whatB := last(b)
		return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(lastA, lastB), cmp.Compare(whatA, whatB))
	})
}

// parallelEnd is where the kills of a whole pod end: at its first sandbox, or
// else after the last thing that belongs to a kill.
func parallelEnd(trace []fakecri.Entry) int {
	if i := slices.IndexFunc(trace, func(e fakecri.Entry) bool { return e.Op == "StopPodSandbox" }); i >= 0 {
		return i
	}
	end := 0
	for i, e := range trace {
		switch e.Op {
		case "StopContainer", "ExecSync", "HTTPRequest", "Hang":
			end = i + 1
		case "RemoveContainer", "RunPodSandbox", "CreateContainer", "Result":
			return end
		}
	}
	return end
}

// byContainer takes apart what garbage collection did to each container, one after
// the other as its map had them, and counts the time from when that began. What it
// does to sandboxes comes after that, and has an order.
func byContainer(trace []fakecri.Entry) {
	begun := map[string]float64{}
	for i := range trace {
		e := &trace[i]
		if e.Container == "" {
			continue
		}
		if _, ok := begun[e.Container]; !ok {
			begun[e.Container] = e.T
		}
		e.T -= begun[e.Container]
	}
	end := slices.IndexFunc(trace, func(e fakecri.Entry) bool { return e.Op == "Result" || strings.HasSuffix(e.Op, "PodSandbox") })
	slices.SortStableFunc(trace[:end], func(a, b fakecri.Entry) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.T, b.T))
	})
}

// sortByTime groups what happened at one time by container.
func sortByTime(trace []fakecri.Entry) {
	slices.SortStableFunc(trace, func(a, b fakecri.Entry) int {
		return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.Container, b.Container))
	})
}

// sortRuns sorts runs of neighbours that have no order among each other.
func sortRuns(trace []fakecri.Entry, belongs func(fakecri.Entry) bool) {
	for from := 0; from < len(trace); from++ {
		to := from
		for to < len(trace) && belongs(trace[to]) && trace[to].T == trace[from].T {
			to++
		}
		slices.SortStableFunc(trace[from:to], func(a, b fakecri.Entry) int {
			return cmp.Compare(a.Container, b.Container)
		})
		from = max(from, to-1)
	}
}
