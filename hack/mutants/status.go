// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var statusMistakes = []mistake{
	{"a workload ends before what is to run again has started", "tally.addMain",
		"!t.due[container.Name] &&", ""},
	{"a sidecar that is kept stopped holds the phase up", "tally.addSidecar",
		"case exitOf(status) != nil, held(status):", "case exitOf(status) != nil:"},
	{"a sidecar that is kept stopped was not initialized", "isInitialized",
		"return held(status) ||", "return"},
	{"what is to run again does not say why it waits", "conversion.waitReason",
		"&& !c.in.Owed.Starts(container.Name, current) {", "{"},
	{"a phase that ended changes again", "tally.phase",
		"case !terminal && t.stopped != t.notRestarts:", "case t.stopped != t.notRestarts:"},
	{"a container that waits for its restart has succeeded", "tally.addMain",
		"if status.State.Terminated != nil && exit.ExitCode == 0 {", "if exit.ExitCode == 0 {"},
	{"a running sidecar makes the pod Running before it has started", "tally.phase",
		"t.pendingSidecars > 0 && !initialized", "false"},
	{"a startup probe's verdict does not matter", "conversion.isStarted",
		"return verdict == plan.ProbeSuccess\n\t}\n\tif status.Started", "return true\n\t}\n\tif status.Started"},
	{"a restart of the agent makes a ready container unready", "conversion.isReady",
		"return isTrue(old.Conditions, corev1.PodReady) ||\n\t\tprevious != nil", "return previous == nil && previous != nil"},
	{"readiness of another instance counts", "conversion.isReady",
		"previous.Ready && previous.ContainerID == status.ContainerID", "previous.Ready"},
	{"an initialized pod loses its condition when all containers restart", "initializedCondition",
		"case isTrue(old, corev1.PodInitialized):", "case false:"},
	{"conditions of others are dropped", "conversion.conditions",
		"if !slices.Contains(ownConditions, condition.Type) {", "if false {"},
	{"foreign containers that exited are reported", "conversion.foreign",
		"if runs && plan.Foreign(c.in.Pod, s) {", "if (runs || true) && plan.Foreign(c.in.Pod, s) {"},
	{"records of kills that are under way are dropped", "newestOfEach",
		"isUnderWay(*k) || !containers", "!containers"},
	{"one trigger's records push out all others", "newestOfEach",
		"|| !triggers[k.Trigger]", ""},
	{"texts of a record have no bound", "boundKill",
		"r.Message = truncateRunes(r.Message, 1024)", ""},
	{"a terminated workload stays Running", "Terminated",
		"st.Phase = corev1.PodFailed", "_ = st.Phase"},
	{"a terminated workload stays ready", "Terminated",
		"condition.Status = corev1.ConditionFalse", "_ = condition"},
}

var deadlineMistakes = []mistake{
	{"a long deadline overflows", "ActiveDeadline",
		"min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt32)", "min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt64)"},
	{"a workload that succeeded in time is ended by its deadline", "PastActiveDeadline",
		"if previous != nil && Ended(previous.Phase) {", "if previous != nil && Ended(previous.Phase) && previous.Phase != corev1.PodSucceeded {"},
}
