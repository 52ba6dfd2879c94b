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

// The differences on purpose (docs/kubelet-differences.md) that plan.Differences cannot
// take away, by name. Each rule takes away no more than what it names.
const (
	// KillOrder: the kubelet takes the kills of a sync from a map, so that there is no
	// order of its own to switch to. The shim's plan is put into the order that the map
	// had.
	KillOrder = "order of serial kills is that of the template"
	// PurgeOrder: the kubelet takes the init containers that it removes before a new
	// sandbox from a map. (kuberuntime_container.go:purgeInitContainers)
	PurgeOrder = "order of removed init containers is that of the template"
	// LostLog: the end of a log that is gone is not read again for 30 s, and then the
	// error is in other words. No call of the runtime depends on it.
	LostLog = "the last words from a log that is gone"
	// NoIPText: the kubelet's error prints its own data structures. No call of the
	// runtime depends on a text.
	NoIPText = "error text of a hook without a pod IP"
)

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

func cloneSteps(steps []step) []step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Trace = slices.Clone(out[i].Trace)
	}
	return out
}

// noIP begins an error text that continues with the kubelet's data structures.
const noIP = "failed to find networking container: "

func withoutStructures(e fakecri.Entry, declared counts) fakecri.Entry {
	if before, _, found := strings.Cut(e.Detail, noIP); found {
		declared[NoIPText]++
		e.Detail = before + noIP
	}
	return e
}

func isResize(e fakecri.Entry) bool {
	return e.Op == "Result" && strings.HasPrefix(e.Detail, "ResizePodInPlace ")
}
