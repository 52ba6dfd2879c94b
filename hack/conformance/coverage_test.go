// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/hack/scenario"
)

// coverage is what the scenarios have reached.
type coverage struct {
	steps                                             int
	triggers, events, injected, methods, results, did counts
}

func newCoverage() coverage {
	return coverage{triggers: counts{}, events: counts{}, injected: counts{}, methods: counts{}, results: counts{}, did: counts{}}
}

func (c *coverage) add(s *scenario.Scenario, v verdict) {
	c.triggers.add(v.triggers)
	for _, st := range s.Steps {
		c.steps++
		c.did[st.Do]++
		for _, e := range st.Events {
			name := e.Kind
			if e.Kind == scenario.Fail {
				name += " " + e.Method
			}
			c.injected[name]++
		}
	}
	for _, st := range v.shim {
		for _, e := range st.Trace {
			switch words := strings.Fields(e.Detail); e.Op {
			case "Event":
				c.events[words[1]]++
			case "Result":
				if len(words) > 1 && words[1] != `""` {
					c.results[words[0]+" "+words[1]]++
				}
			case "Observed":
			default:
				c.methods[e.Op]++
			}
		}
	}
}

func (c *campaign) report(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(w, "scenarios: %d, steps: %d\n", c.played, c.seen.steps)
	table(w, "kills by trigger", c.seen.triggers)
	table(w, "calls that change something", c.seen.methods)
	table(w, "events", c.seen.events)
	table(w, "failed results", c.seen.results)
	table(w, "what the steps did", c.seen.did)
	table(w, "what happened", c.seen.injected)
	table(w, "differences on purpose, scenarios or occurrences", c.declared)
	_, _ = fmt.Fprintf(w, "differences: %d\n", c.different)
}

func table(w io.Writer, title string, c counts) {
	_, _ = fmt.Fprintf(w, "%s:\n", title)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		_, _ = fmt.Fprintf(w, "  %7d  %s\n", c[name], name)
	}
}

// printTraces prints what both sides did, step by step.
func printTraces(w io.Writer, kubelet, shim []step) {
	for i := range kubelet {
		for _, side := range []struct {
			name string
			step step
		}{{"kubelet", kubelet[i]}, {"shim", shim[i]}} {
			_, _ = fmt.Fprintf(w, "step %d, %s:\n  %s\n", i, side.name, strings.Join(lines(side.step, counts{}), "\n  "))
		}
	}
}
