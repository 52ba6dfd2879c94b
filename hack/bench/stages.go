// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/managedworkload/managedworkload/hack/criproxy"
)

// Goals of the ratios; docs/performance.md has them too.
const (
	goalStart = 1.2
	goalEnd   = 1.3
	goalBurst = 1.15
)

// startStages and endStages are the parts of a start and of an end, in order.
// Those that are requests to the runtime have a time by hand too.
var (
	startStages = []string{"API", "manager", "watch", "sandbox", "create", "start", "status"}
	endStages   = []string{"API", "manager and watch", "hook", "stop", "removal", "status and finalizer", "release"}
)

// stageOf is the stage that a request belongs to.
func stageOf(method string) string {
	switch method {
	case "RunPodSandbox":
		return "sandbox"
	case "CreateContainer":
		return "create"
	case "StartContainer":
		return "start"
	case "ExecSync":
		return "hook"
	case "StopContainer":
		return "stop"
	default:
		return "removal"
	}
}

// seen are the moments of one life that the API showed.
type seen struct {
	asked, answered time.Time // the create or delete request
	node            time.Time // the NodeWorkload was there, or gone
	done            time.Time // Running, or the ManagedWorkload gone
}

// startTimes splits a start. What the shim does between two requests counts to
// the later one.
func startTimes(s seen, calls []criproxy.Call) (stageTimes, error) {
	times := stageTimes{"API": s.answered.Sub(s.asked), "manager": s.node.Sub(s.answered)}
	last := s.node
	for _, c := range calls {
		switch stage := stageOf(c.Method); {
		case !changes(c):
		case stage == "sandbox":
			times["watch"] = c.Began.Sub(last)
			times[stage] = c.Ended.Sub(c.Began)
			last = c.Ended
		case stage == "create" || stage == "start":
			times[stage] += c.Ended.Sub(last)
			last = c.Ended
		default:
			return nil, fmt.Errorf("a %s during a start", c.Method)
		}
	}
	times["status"] = s.done.Sub(last)
	return times, nil
}

// endTimes splits a kill and what follows it.
func endTimes(s seen, calls []criproxy.Call) stageTimes {
	times := stageTimes{"API": s.answered.Sub(s.asked), "release": s.done.Sub(s.node)}
	last := s.answered
	for _, c := range calls {
		if !changes(c) || c.Began.After(s.node) {
			continue
		}
		stage := stageOf(c.Method)
		if _, begun := times["manager and watch"]; !begun {
			times["manager and watch"] = c.Began.Sub(last)
			last = c.Began
		}
		if c.Ended.After(last) {
			times[stage] += c.Ended.Sub(last)
			last = c.Ended
		}
	}
	times["status and finalizer"] = s.node.Sub(last)
	return times
}

func total(times stageTimes) time.Duration {
	var sum time.Duration
	for _, d := range times {
		sum += d
	}
	return sum
}

// comparison is one way of doing things beside the other, round by round.
type comparison struct {
	what         string
	stages       []string
	goal         float64 // 0: none
	shim, byHand []stageTimes
	calls        []criproxy.Call // the shim's, of the last round
}

func (c *comparison) print() {
	a, b := median(c.shim, total), median(c.byHand, total)
	fmt.Printf("%s (medians of %d, in ms)\n%-22s %15s %10s\n", c.what, len(c.shim), "", "ManagedWorkload", "by hand")
	for _, stage := range c.stages {
		of := func(t stageTimes) time.Duration { return t[stage] }
		s, h := median(c.shim, of), median(c.byHand, of)
		switch {
		case h > 0:
			fmt.Printf("  %-20s %15.1f %10.1f\n", stage, ms(s), ms(h))
		case s > 0:
			fmt.Printf("  %-20s %15.1f %10s\n", stage, ms(s), "-")
		}
	}
	fmt.Printf("  %-20s %15.1f %10.1f   ratio %.2f%s\n", "all", ms(a), ms(b), float64(a)/float64(b), goalText(c.goal))
	fmt.Printf("  requests to the runtime: %s\n\n", count(c.calls))
}

// list is each name with its number.
func list[N int | float64](numbers map[string]N) string {
	var text []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if numbers[name] > 0 {
			text = append(text, fmt.Sprintf("%s %.4g", name, float64(numbers[name])))
		}
	}
	return strings.Join(text, ", ")
}

// count says how many requests of each kind there are, and how long those took that
// only read.
func count(calls []criproxy.Call) string {
	changing, reading := 0, map[string]int{}
	var took time.Duration
	for _, c := range calls {
		if changes(c) {
			changing++
			continue
		}
		reading[c.Method]++
		took += c.Ended.Sub(c.Began)
	}
	return fmt.Sprintf("%d that change something, %d that read (%.1f ms): %s", changing, len(calls)-changing, ms(took), list(reading))
}

func goalText(goal float64) string {
	if goal == 0 {
		return ""
	}
	return fmt.Sprintf(" (goal %.2f)", goal)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(samples []stageTimes, of func(stageTimes) time.Duration) time.Duration {
	times := make([]time.Duration, 0, len(samples))
	for _, s := range samples {
		times = append(times, of(s))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
