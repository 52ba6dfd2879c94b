// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var sandboxMistakes = []mistake{
	{"what another sandbox ran counts", "planner.elsewhere",
		"if !p.Differences.OwnSandbox ||", "if true ||"},
	{"a main container that ran here does not show that the pod was initialized", "planner.initializedHere",
		"return s != nil && s.SandboxID != \"\"", "return s != nil && false"},
	{"what was removed never ran", "planner.last",
		"s != nil || !p.Differences.KeepExits", "true"},
	{"an exit is kept although another instance runs", "Exits.Seen",
		"delete(seen, c.Name)", "_ = seen"},
	{"a sandbox that is lost under Never stays away", "planner.startedAnew",
		"if p.Differences.NextSandbox {", "if false {"},
	{"what ran under Never runs again in the next sandbox", "planner.startsInNext",
		"return restartsWhenKilled(p.Pod, c)", "return true"},
	{"the next sandbox goes by no exit code", "planner.startsInNext",
		"return ContainerShouldRestart(p.Pod, c, s.ExitCode)", "return true"},
	{"what runs in an earlier sandbox runs on", "planner.killStrays",
		"s.State == ContainerRunning && p.elsewhere(s):", "false:"},
	{"a pod starts over again and again without a pause", "CheckResetBackoff", "if !d.BackOffResets {", "if true {"},
	{"a pod does not start over while any container waits", "CheckResetBackoff", " || !asksForRestartOfAll(c, exited.ExitCode)", ""},
	{"the disk limit of a sidecar does not count", "DiskLimitsOf",
		"slices.Concat(containerLimits(pod.Spec.Containers), containerLimits(pod.Spec.InitContainers))", "containerLimits(pod.Spec.Containers)"},
}

var exitMistakes = []mistake{
	{"a restart of all leaves out what has completed", "memory.report", "m.rec.Exits = nil", ""},
	{"a status forgets what has completed", "memory.adopt", "m.rec.Exits = plan.ExitsByStatus(m.rec.PodStatus)", ""},
}
