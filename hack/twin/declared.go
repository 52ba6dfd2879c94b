// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// rule is a difference on purpose, with a name that docs/kubelet-differences.md
// or docs/conformance.md explains.
type rule struct {
	name string
	// matches is as narrow as it can be: on the scenario, the aspect and both values.
	matches func(s *scenario, d difference) bool
}

// undeclared splits off the differences that a rule declares, and counts them.
func undeclared(s *scenario, all []difference) ([]difference, map[string]int) {
	var rest []difference
	counts := map[string]int{}
next:
	for _, d := range all {
		for _, r := range rules {
			if r.matches(s, d) {
				counts[r.name]++
				continue next
			}
		}
		rest = append(rest, d)
	}
	return rest, counts
}

// only matches an aspect that one side alone has.
func onlyShim(d difference, prefix string) bool {
	return d.kubelet == "" && strings.HasPrefix(d.aspect, prefix)
}

// field is the part of a status difference's aspect after the step.
func field(d difference) (string, bool) {
	rest, isStatus := strings.CutPrefix(d.aspect, "status at ")
	_, name, _ := strings.Cut(rest, ": ")
	return name, isStatus
}

// ownConditions are those that a Pod does not have.
var ownConditions = []string{"TemplateAccepted", "RuntimeUsable", "ShimResponding"}

// ownReasons stand where a Pod's condition has no reason.
var ownReasons = []string{"SandboxReady", "SandboxNotReady", "ContainersInitialized", "ContainersReady", "PodReady", "NotRestarting"}

// sleeps tells whether a hook only sleeps: it leaves no sign of its begin.
func sleeps(s *scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.spec.InitContainers, s.spec.Containers), func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil
	})
}

// fewer tells whether an event came less often on the shim's side: at most once
// for each of the three instances that a scenario makes.
func fewer(shim, kubelet string) bool {
	counts := []string{"", "sent 1 times", "sent 2 times", "sent 3 times"}
	k := slices.Index(counts, kubelet)
	return k > 0 && slices.Contains(counts[:k], shim)
}

// speaksAfterSignal tells whether the journals differ in nothing but the end of
// hooks that still ran in the kubelet when the program had got its signal.
func speaksAfterSignal(d difference) bool {
	const signal, end = " | signal SIGTERM", " | preStop end"
	return strings.HasPrefix(d.aspect, "journal ") && strings.Contains(d.kubelet, signal+end) &&
		strings.ReplaceAll(d.kubelet, signal+end, signal) == d.shim
}

var sidecarLastState = regexp.MustCompile(`^s\d\.lastState\.terminated\.`)

// probeInFlight is an error of a prober whose container was just ending.
var probeInFlight = regexp.MustCompile(`^event Warning Unhealthy "(Readiness|Liveness|Startup) probe errored and resulted in unknown state: rpc error: ` +
	`(code = Canceled desc = context canceled|code = Unknown desc = failed to exec in container: .*` +
	`|code = NotFound desc = failed to exec in container: .*)" on `)

var rules = []rule{
	{"An event Killed tells how each kill ended", func(_ *scenario, d difference) bool {
		return onlyShim(d, "event Normal Killed ") || onlyShim(d, "event Warning Killed ")
	}},
	{"Conditions of the shim itself", func(_ *scenario, d difference) bool {
		name, isStatus := field(d)
		return isStatus && d.kubelet == "" && slices.Contains(ownConditions, strings.TrimPrefix(name, "condition "))
	}},
	{"PodScheduled: nobody schedules", func(_ *scenario, d difference) bool {
		name, isStatus := field(d)
		return isStatus && name == "condition PodScheduled" && d.kubelet == "True" && d.shim == ""
	}},
	{"Reasons of conditions are never empty", func(_ *scenario, d difference) bool {
		name, isStatus := field(d)
		rest, same := strings.CutPrefix(d.shim, d.kubelet+" ")
		return isStatus && strings.HasPrefix(name, "condition ") && !strings.Contains(d.kubelet, " ") &&
			same && slices.Contains(ownReasons, rest)
	}},
	{"lifecycle.stopSignal is on, so the status tells the signal", func(_ *scenario, d difference) bool {
		name, isStatus := field(d)
		return isStatus && strings.HasSuffix(name, ".stopSignal") && d.kubelet == "" && d.shim == "SIGTERM"
	}},
	{"A preStop hook that overruns is cancelled, and that is told in its event", func(s *scenario, d difference) bool {
		const prefix = `event Warning FailedPreStopHook "PreStopHook `
		cancelled := onlyShim(d, prefix+"not completed in grace period, cancelled\" on spec.")
		failed := strings.HasPrefix(d.aspect, prefix+"failed\" on spec.") && fewer(d.shim, d.kubelet)
		return s.overruns && (cancelled || failed || speaksAfterSignal(d))
	}},
	{"A container that could not be started has no start time instead of 1970", func(_ *scenario, d difference) bool {
		name, isStatus := field(d)
		return isStatus && strings.HasSuffix(name, ".terminated.startedAt") && d.kubelet == "set" && d.shim == "null"
	}},
	{"CrashLoopBackOff is told at once instead of at the next sync", func(s *scenario, d difference) bool {
		name, isStatus := field(d)
		if !isStatus || !s.loops {
			return false
		}
		// Until then the kubelet tells the exit, or why the start failed.
		told := name == "c.state.waiting.reason" && (d.kubelet == "" || d.kubelet == "RunContainerError") && d.shim == "CrashLoopBackOff" ||
			name == "c.state.waiting.message" && (d.kubelet == "" || strings.HasPrefix(d.kubelet, "failed to create containerd task: ")) && strings.HasPrefix(d.shim, "back-off ")
		return told || d.shim == "" && strings.HasPrefix(name, "c.state.terminated.")
	}},
	{"A probe that is under way when its container ends: by chance on either side", func(_ *scenario, d difference) bool {
		return (d.kubelet == "" || d.shim == "") && probeInFlight.MatchString(d.aspect)
	}},
	{"The last state of a sidecar outlives its sandbox", func(s *scenario, d difference) bool {
		name, isStatus := field(d)
		forgotten := strings.HasSuffix(name, ".exitCode") && d.kubelet == "137" || slices.Contains([]string{"", "null", "ContainerStatusUnknown"}, d.kubelet) ||
			strings.HasPrefix(d.kubelet, "The container could not be located when the pod was deleted.")
		return isStatus && s.trigger == "SandboxChanged" && sidecarLastState.MatchString(name) && forgotten
	}},
	{"A termination begins at once instead of after the sync under way", func(s *scenario, d difference) bool {
		return d.timed && d.aspect == "time of termination: "+firstSign && d.seconds[1] < d.seconds[0] && !sleeps(s)
	}},
	{"A grace period that is shortened takes effect on the kill under way", func(s *scenario, d difference) bool {
		return s.shorten != nil && d.timed && strings.HasSuffix(d.aspect, " exit") && d.seconds[1] < d.seconds[0]
	}},
}
