// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var togetherMistakes = []mistake{
	{"a sidecar ends before the containers that it serves", "planner.orderKills",
		"if len(p.actions.ContainersToKill) == 0 {", "if true {"},
	{"a sidecar does not wait for a kill of an earlier sync", "planner.orderKills",
		"if begun || ", "_ = begun\n\t\tif "},
	{"a sidecar that its change renames or removes ends before the containers that it serves", "asMade",
		"if len(moved) == 0 {", "if true {"},
	{"a sidecar that has failed waits", "onPurpose",
		"return deliberate(k.Trigger)", "return true || deliberate(k.Trigger)"},
	{"kills that wait for each other are carried out apart", "Actions.together",
		"slices.Contains(k.WaitsFor, other.Name) || slices.Contains(other.WaitsFor, k.Name) ||", "false ||"},
	{"what is under way is done a second time", "planner.mainContainers",
		"p.UnderWay[c.Name] || ", ""},
}

var togetherWorkerMistakes = []mistake{
	{"a workload ends between a kill and the start after it", "syncer.keep",
		"if s.parts.busy() && plan.Ended(r.pod.Phase) {", "if false {"},
	{"a kill that failed is forgotten by the next sync", "syncer.execute",
		"cmp.Or(outcome.KillError, s.parts.killError())", "cmp.Or(outcome.KillError)"},
}
