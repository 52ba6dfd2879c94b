// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var statusMistakes = []mistake{
	{"a workload ends before what is to run again has started", "phase.go",
		"!t.due[container.Name] && ", ""},
	{"a sidecar that is kept stopped holds the phase up", "phase.go",
		"case exitOf(status) != nil, held(status):", "case exitOf(status) != nil:"},
	{"a sidecar that is kept stopped was not initialized", "conditions.go",
		"return held(status) || ", "return "},
	{"what is to run again does not say why it waits", "containers.go",
		" && !c.in.Owed.Starts(container.Name, current) {", " {"},
	{"a phase that ended changes again", "phase.go",
		"case !terminal && t.stopped != t.notRestarts:", "case t.stopped != t.notRestarts:"},
	{"a container that waits for its restart has succeeded", "phase.go",
		"if status.State.Terminated != nil && exit.ExitCode == 0 {", "if exit.ExitCode == 0 {"},
	{"a running sidecar makes the pod Running before it has started", "phase.go",
		"t.pendingSidecars > 0 && !initialized", "false"},
	{"a startup probe's verdict does not matter", "ready.go",
		"return verdict == plan.ProbeSuccess\n\t}\n\tif status.Started", "return true\n\t}\n\tif status.Started"},
	{"a restart of the agent makes a ready container unready", "ready.go",
		"return isTrue(old.Conditions, corev1.PodReady) ||\n\t\tprevious != nil", "return previous == nil && previous != nil"},
	{"readiness of another instance counts", "ready.go",
		"previous.Ready && previous.ContainerID == status.ContainerID", "previous.Ready"},
	{"an initialized pod loses its condition when all containers restart", "conditions.go",
		"case isTrue(old, corev1.PodInitialized):", "case false:"},
	{"conditions of others are dropped", "conditions.go",
		"if !slices.Contains(ownConditions, condition.Type) {", "if false {"},
	{"foreign containers that exited are reported", "conditions.go",
		"if runs && plan.Foreign(c.in.Pod, s) {", "if (runs || true) && plan.Foreign(c.in.Pod, s) {"},
	{"records of kills that are under way are dropped", "kills.go",
		"isUnderWay(*k) || !containers", "!containers"},
	{"one trigger's records push out all others", "kills.go",
		" || !triggers[k.Trigger]", ""},
	{"texts of a record have no bound", "kills.go",
		"r.Message = truncateRunes(r.Message, 1024)", ""},
	{"a terminated workload stays Running", "terminated.go",
		"st.Phase = corev1.PodFailed", "_ = st.Phase"},
	{"a terminated workload stays ready", "terminated.go",
		"condition.Status = corev1.ConditionFalse", "_ = condition"},
}

var deadlineMistakes = []mistake{
	{"a long deadline overflows", "deadline.go",
		"min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt32)", "min(*pod.Spec.ActiveDeadlineSeconds, math.MaxInt64)"},
	{"a workload that succeeded in time is ended by its deadline", "deadline.go",
		"if previous != nil && Ended(previous.Phase) {", "if previous != nil && Ended(previous.Phase) && previous.Phase != corev1.PodSucceeded {"},
}
