// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// rule is a difference on purpose, with a name that docs/kubelet-differences.md
// or docs/conformance.md explains.
type rule struct {
	name string
	// matches is as narrow as it can be: on the scenario, the aspect, both values,
	// and what else differs.
	matches func(c course, d difference) bool
}

// course is a scenario and everything that differed in one run of it.
type course struct {
	*scenario
	all []difference
}

// undeclared splits off the differences that a rule declares, and counts them.
func undeclared(s *scenario, all []difference) ([]difference, map[string]int) {
	var rest []difference
	counts := map[string]int{}
next:
	for _, d := range all {
		for _, r := range rules {
			if r.matches(course{s, all}, d) {
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
var ownConditions = []string{"TemplateAccepted", "RuntimeUsable", "ShimResponding", "Reserved"}

// ownReasons stand where a Pod's condition has no reason.
var ownReasons = []string{"SandboxReady", "SandboxNotReady", "ContainersInitialized", "ContainersReady", "PodReady", "NotRestarting"}

// sleeps reports whether a hook only sleeps: it leaves no sign of its begin.
func sleeps(s *scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.spec.InitContainers, s.spec.Containers), func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil
	})
}

const (
	hookFailed    = `event Warning FailedPreStopHook "PreStopHook failed" on `
	hookCancelled = `event Warning FailedPreStopHook "PreStopHook not completed in grace period, cancelled" on `
)

// times reads how often an event was sent, as eventTexts puts it.
func times(text string) int {
	n := 0
	if text != "" {
		_, _ = fmt.Sscanf(text, "sent %d times", &n) // no number is none
	}
	return n
}

// overrun reports whether a difference comes from a hook for which there was not
// enough time. The shim cancels it and says so; the kubelet lets it run on, so
// that it ends later, with the container at the latest and then as failed.
func (c course) overrun(d difference) bool {
	path, cancelled := strings.CutPrefix(d.aspect, hookCancelled)
	if cancelled {
		return d.kubelet == "" && c.mayOverrun(path)
	}
	if path, failed := strings.CutPrefix(d.aspect, hookFailed); failed {
		more := times(d.kubelet) - times(d.shim)
		return more > 0 && more <= c.cancelled(path) && c.mayOverrun(path)
	}
	// The journals differ in nothing but the end of hooks that still ran in the
	// kubelet when the program had got its signal.
	const signal, end = " | signal SIGTERM", " | preStop end"
	name, isJournal := strings.CutPrefix(d.aspect, "journal ")
	return isJournal && c.mayOverrun(name) && strings.Contains(d.kubelet, signal+end) &&
		strings.ReplaceAll(d.kubelet, signal+end, signal) == d.shim
}

// cancelled is how many hooks of a container the shim says it has cancelled.
func (c course) cancelled(path string) int {
	for _, d := range c.all {
		if d.aspect == hookCancelled+path {
			return times(d.shim)
		}
	}
	return 0
}

// mayOverrun reports whether a container, given by its name or an event's field
// path, has a preStop hook that takes at least as long as one of its kills may.
func (s *scenario) mayOverrun(path string) bool {
	for _, c := range slices.Concat(s.spec.InitContainers, s.spec.Containers) {
		if c.Name != path && !strings.HasSuffix(path, "{"+c.Name+"}") || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		grace := *s.spec.TerminationGracePeriodSeconds
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.StartupProbe} {
			if p != nil {
				grace = min(grace, ptr.Deref(p.TerminationGracePeriodSeconds, grace))
			}
		}
		grace = min(grace, ptr.Deref(s.grace, grace))
		if s.shorten != nil {
			grace = min(grace, s.shorten.grace)
		}
		return hookTime(c.Lifecycle.PreStop) >= time.Duration(grace)*time.Second
	}
	return false
}

// backedOffEarly reports whether a difference is the shim's CrashLoopBackOff beside
// what the kubelet still tells until its next sync: the exit, or why the start
// failed.
func (c course) backedOffEarly(d difference) bool {
	if c.deletesOwn && onlyShim(d, `event Warning BackOff "Back-off restarting failed container c in pod `) {
		return true // its next try comes before the back-off is over, the kubelet's after it
	}
	name, isStatus := field(d)
	if !isStatus || !c.loops {
		return false
	}
	step, _, _ := strings.Cut(d.aspect, ": ")
	notStarted := func(d difference) bool {
		return d.aspect == step+": c.state.waiting.message" &&
			strings.HasPrefix(d.kubelet, "failed to create containerd task: ") && strings.HasPrefix(d.shim, "back-off ")
	}
	switch {
	case name == "c.state.waiting.reason":
		return d.shim == "CrashLoopBackOff" &&
			(d.kubelet == "" || d.kubelet == "RunContainerError" && slices.ContainsFunc(c.all, notStarted))
	case name == "c.state.waiting.message":
		return d.kubelet == "" && strings.HasPrefix(d.shim, "back-off ") || notStarted(d)
	}
	return d.shim == "" && strings.HasPrefix(name, "c.state.terminated.")
}

// completedBefore reports whether a difference is the kubelet's word that a resize is
// complete, sent with what the pod had before it: a sync of the older pod clears the
// condition that the allocation has just set. (kubelet kubelet.go:SyncPod, which
// notes the race)
func (c course) completedBefore(d difference) bool {
	quoted, found := strings.CutPrefix(d.aspect, "event Normal ResizeCompleted ")
	if !found || d.shim != "" {
		return false
	}
	quoted, _ = strconv.QuotedPrefix(quoted)
	message, _ := strconv.Unquote(quoted)
	data, found := strings.CutPrefix(message, "Pod resize completed: ")
	type container struct {
		Name      string
		Resources corev1.ResourceRequirements
	}
	var resized struct{ InitContainers, Containers []container }
	if !found || json.Unmarshal([]byte(data), &resized) != nil {
		return false
	}
	same := func(a container, b corev1.Container) bool {
		return a.Name == b.Name && equality.Semantic.DeepEqual(a.Resources, b.Resources)
	}
	return slices.EqualFunc(resized.InitContainers, c.spec.InitContainers, same) && slices.EqualFunc(resized.Containers, c.spec.Containers, same)
}

var sidecarLastState = regexp.MustCompile(`^s\d\.lastState\.terminated\.`)

// probeInFlight is an error of a prober whose container was just ending.
var probeInFlight = regexp.MustCompile(`^event Warning Unhealthy "(Readiness|Liveness|Startup) probe errored and resulted in unknown state: rpc error: ` +
	`(code = Canceled desc = context canceled|code = Unknown desc = failed to exec in container: .*` +
	`|code = NotFound desc = failed to exec in container: .*)" on `)

// seenInside is which thing a container saw, without which container and when.
func seenInside(d difference) (string, bool) {
	rest, isReport := strings.CutPrefix(d.aspect, "report ")
	_, what, _ := strings.Cut(rest, ": ")
	return what, isReport
}

// boundToNode reports whether a difference is that the kubelet's token ends with its Pod,
// and ours with the Node alone.
func (course) boundToNode(d difference) bool {
	what, isReport := seenInside(d)
	return isReport && strings.HasPrefix(what, "Pod of token ") && d.kubelet == "<name> <uid>" && d.shim == ""
}

// hourAtMost reports whether a difference is that our token lasts for an hour where more
// was asked for, and that kube-apiserver does not prolong it.
func (course) hourAtMost(d difference) bool {
	what, isReport := seenInside(d)
	if !isReport {
		return false
	}
	if strings.HasPrefix(what, "prolonged lifetime of token ") {
		return d.shim == ""
	}
	var asked int64
	_, err := fmt.Sscanf(d.kubelet, "%d s", &asked)
	return strings.HasPrefix(what, "lifetime of token ") && err == nil && asked > 3600 && d.shim == "3600 s"
}

// configMapInMemory reports whether a difference is that a volume of a ConfigMap is a tmpfs.
func (c course) configMapInMemory(d difference) bool {
	what, isReport := seenInside(d)
	path, isTmpfs := strings.CutSuffix(strings.TrimPrefix(what, "mount "), " is tmpfs")
	if !isReport || !isTmpfs || d.kubelet != "" || d.shim != "true" {
		return false
	}
	mounted := func(m corev1.VolumeMount) bool {
		return m.MountPath == path && slices.ContainsFunc(c.spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.ConfigMap != nil })
	}
	return slices.ContainsFunc(slices.Concat(c.spec.InitContainers, c.spec.Containers), func(one corev1.Container) bool {
		return slices.ContainsFunc(one.VolumeMounts, mounted)
	})
}

// kubeletsAnnotations are those that the kubelet adds to each Pod.
var kubeletsAnnotations = regexp.MustCompile(`kubernetes\.io/config\.(seen|source)=\\"[^"]*\\"(\\n)?`)

// ownAnnotations reports whether a difference is that a file with all annotations has the
// kubelet's, too.
func (course) ownAnnotations(d difference) bool {
	what, isReport := seenInside(d)
	without := kubeletsAnnotations.ReplaceAllString(d.kubelet, "")
	return isReport && strings.HasPrefix(what, "content ") && strings.TrimSuffix(strings.TrimSuffix(without, `"`), `\n`) == strings.TrimSuffix(d.shim, `"`)
}

var rules = []rule{
	{"An event Killed reports how each kill ended", func(_ course, d difference) bool {
		return onlyShim(d, "event Normal Killed ") || onlyShim(d, "event Warning Killed ")
	}},
	{"Conditions of the shim itself", func(_ course, d difference) bool {
		name, isStatus := field(d)
		return isStatus && d.kubelet == "" && slices.Contains(ownConditions, strings.TrimPrefix(name, "condition "))
	}},
	{"PodScheduled: there is no scheduler", func(_ course, d difference) bool {
		name, isStatus := field(d)
		return isStatus && name == "condition PodScheduled" && d.kubelet == "True" && d.shim == ""
	}},
	{"Reasons of conditions are never empty", func(_ course, d difference) bool {
		name, isStatus := field(d)
		rest, same := strings.CutPrefix(d.shim, d.kubelet+" ")
		return isStatus && strings.HasPrefix(name, "condition ") && !strings.Contains(d.kubelet, " ") &&
			same && slices.Contains(ownReasons, rest)
	}},
	{"lifecycle.stopSignal is on, so the status has the signal", func(_ course, d difference) bool {
		name, isStatus := field(d)
		return isStatus && strings.HasSuffix(name, ".stopSignal") && d.kubelet == "" && d.shim == "SIGTERM"
	}},
	{"A preStop hook that overruns is cancelled, and its event says so", course.overrun},
	{"A container that could not be started has no start time instead of 1970", func(_ course, d difference) bool {
		name, isStatus := field(d)
		return isStatus && strings.HasSuffix(name, ".terminated.startedAt") && d.kubelet == "set" && d.shim == "null"
	}},
	{"CrashLoopBackOff is reported at once instead of at the next sync", course.backedOffEarly},
	{"A resize is reported as complete too early, by a race in the kubelet", course.completedBefore},
	{"A probe that is under way when its container ends: by chance on either side", func(_ course, d difference) bool {
		return (d.kubelet == "" || d.shim == "") && probeInFlight.MatchString(d.aspect)
	}},
	{"The last state of a sidecar outlives its sandbox", func(c course, d difference) bool {
		name, isStatus := field(d)
		forgotten := strings.HasSuffix(name, ".exitCode") && d.kubelet == "137" || slices.Contains([]string{"", "null", "ContainerStatusUnknown"}, d.kubelet) ||
			strings.HasPrefix(d.kubelet, "The container could not be located when the pod was deleted.")
		return isStatus && c.trigger == "SandboxChanged" && sidecarLastState.MatchString(name) && forgotten
	}},
	{"A termination begins at once instead of after the sync under way", func(c course, d difference) bool {
		return d.timed && d.aspect == "time of termination: "+firstSign && d.seconds[1] < d.seconds[0] && !sleeps(c.scenario)
	}},
	{"A grace period that is shortened takes effect on the kill under way", func(c course, d difference) bool {
		return c.shorten != nil && d.timed && strings.HasSuffix(d.aspect, " exit") && d.seconds[1] < d.seconds[0]
	}},
	{"A token is bound to the Node, not to a Pod", course.boundToNode},
	{"A token is valid for an hour at most", course.hourAtMost},
	{"The kubelet's own annotations are in the file with all annotations", course.ownAnnotations},
	{"Files that outlive their object are said once, at once, and by a condition", func(c course, d difference) bool {
		if name, isStatus := field(d); isStatus && name == "condition VolumesOutdated" {
			return c.deletesOwn && d.kubelet == ""
		}
		return c.deletesOwn && strings.HasPrefix(d.aspect, `event Warning FailedMount "MountVolume.SetUp failed for volume `) &&
			strings.HasSuffix(d.aspect, `\"<own>\" not found" on `)
	}},
	{"Volumes of ConfigMaps are in memory", course.configMapInMemory},
}
