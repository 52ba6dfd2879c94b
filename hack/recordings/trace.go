// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package recordings

import (
	"cmp"
	"math"
	"slices"
)

// Entry is one thing that was done, in the words of the vectors.
type Entry map[string]any

// Text is a field that is a text, empty if the entry has none.
func (e Entry) Text(key string) string {
	s, _ := e[key].(string)
	return s
}

// Time is when it was done, in seconds, to the microsecond.
func (e Entry) Time() float64 {
	t, _ := e["t"].(float64)
	return math.Round(t*1e6) / 1e6
}

// Only returns the entries of one kind.
func Only(trace []Entry, op string) []Entry {
	return slices.DeleteFunc(slices.Clone(trace), func(e Entry) bool { return e.Text("op") != op })
}

// Step is where an entry stands in a container's kill.
func (e Entry) Step() int {
	switch e.Text("op") {
	case "Event":
		if e.Text("reason") == "FailedPreStopHook" {
			return 5
		}
		return 1
	case "HookStart":
		return 2
	case "ExecSync", "HTTPRequest":
		return 3
	case "HookEnd":
		return 4
	case "StopContainer":
		return 6
	case "StopContainerEnd":
		return 7
	default:
		return 8
	}
}

// last is 1 for what comes after all containers' entries of a time.
func (e Entry) last() int {
	if e.Text("op") == "StopPodSandbox" || e.Text("op") == "Return" {
		return 1
	}
	return 0
}

// SortKills sorts what parallel kills did: by time, container, step and ID.
func SortKills(trace []Entry) []Entry {
	return slices.SortedStableFunc(slices.Values(trace), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Time(), b.Time()), cmp.Compare(a.last(), b.last()),
			compareText(a, b, "container"), cmp.Compare(a.Step(), b.Step()), compareText(a, b, "id"))
	})
}

func compareText(a, b Entry, key string) int { return cmp.Compare(a.Text(key), b.Text(key)) }

// EndOfKills is where the first kills of a trace have ended.
func EndOfKills(trace []Entry, kills int) int {
	end := 0
	for i, e := range trace {
		if e.Text("op") == "StopContainerEnd" && kills > 0 {
			kills--
			end = i + 1
		}
	}
	return end
}

// GroupKills groups the first kills, one after another, by container: the kubelet
// takes them from a map.
func GroupKills(trace []Entry, kills int) []Entry {
	type named struct {
		name string
		Entry
	}
	var list []named
	name := ""
	end := EndOfKills(trace, kills)
	for _, e := range trace[:end] {
		name = cmp.Or(e.Text("container"), name)
		list = append(list, named{name, e})
	}
	slices.SortStableFunc(list, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	out := slices.Clone(trace)
	for i := range list {
		out[i] = list[i].Entry
	}
	return out
}

// SortRemovals sorts runs of removals by container, and by ID if that is asked for.
func SortRemovals(trace []Entry, byID bool) []Entry {
	trace = slices.Clone(trace)
	for from := 0; from < len(trace); from++ {
		to := from
		for to < len(trace) && trace[to].Text("op") == "RemoveContainer" {
			to++
		}
		slices.SortStableFunc(trace[from:to], func(a, b Entry) int {
			if c := compareText(a, b, "container"); c != 0 || !byID {
				return c
			}
			return compareText(a, b, "id")
		})
		from = max(from, to-1)
	}
	return trace
}

// Result is a result of a sync.
type Result struct {
	Action       string `json:"action"`
	Target       string `json:"target"`
	Error        string `json:"error"`
	Message      string `json:"message"`
	BackoffUntil string `json:"backoffUntil,omitempty"`
}

// KillResults sorts the kills among results that come first: they have no order.
func KillResults(results []Result) []Result {
	results = slices.Clone(results)
	n := 0
	for n < len(results) && results[n].Action == "KillContainer" {
		n++
	}
	slices.SortStableFunc(results[:n], func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Message, b.Message))
	})
	return results
}

// GCAnswer is what a collection did, sorted.
type GCAnswer struct {
	KilledBeforeRemoval []GCKill `json:"killedBeforeRemoval"`
	RemoveCalls         []string `json:"removeContainerCalls"`
	RemovedContainers   []string `json:"removedContainers"`
	StopSandboxCalls    []string `json:"stopSandboxCalls"`
	RemovedSandboxes    []string `json:"removedSandboxes"`
	RemainingContainers []string `json:"remainingContainers"`
	RemainingSandboxes  []string `json:"remainingSandboxes"`
	Errors              []string `json:"errors"`
}

// GCKill is a container that ran and was killed.
type GCKill struct {
	ID      string  `json:"id"`
	Timeout float64 `json:"timeout"`
}

// Collected is the answer that a trace gives, with what is left.
func Collected(trace []Entry, containers, sandboxes []string, errs ...string) GCAnswer {
	ids := func(op, key string, all bool) []string {
		list := []string{}
		for _, e := range Only(trace, op) {
			if all || e.Text("error") == "" {
				list = append(list, e.Text(key))
			}
		}
		slices.Sort(list)
		return list
	}
	out := GCAnswer{
		KilledBeforeRemoval: []GCKill{}, RemoveCalls: ids("RemoveContainer", "id", true), RemovedContainers: ids("RemoveContainer", "id", false),
		StopSandboxCalls: ids("StopPodSandbox", "sandboxID", true), RemovedSandboxes: ids("RemovePodSandbox", "sandboxID", false),
		RemainingContainers: append([]string{}, containers...), RemainingSandboxes: append([]string{}, sandboxes...), Errors: errs,
	}
	for _, e := range Only(trace, "StopContainer") {
		timeout, _ := e["timeout"].(float64)
		out.KilledBeforeRemoval = append(out.KilledBeforeRemoval, GCKill{e.Text("id"), timeout})
	}
	slices.SortFunc(out.KilledBeforeRemoval, func(a, b GCKill) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(out.RemainingContainers)
	slices.Sort(out.RemainingSandboxes)
	return out
}
