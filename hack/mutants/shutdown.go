// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var shutdownPlanMistakes = []mistake{
	{"a shutdown gives all a group's time", "shutdown.go", "override = min(override, *own)", "_ = own"},
	{"a pod between two periods ends with the later ones", "shutdown.go", "groups[at+1].Priority <= priorityOf(pod)", "groups[at].Priority < priorityOf(pod)"},
	{"a critical class counts as any other", "shutdown.go", `case pod.Spec.PriorityClassName == "system-node-critical":`, "case false:"},
	{"what a shutdown ended forgets why", "shutdown.go", "if previous == nil || previous.Reason != ReasonTerminated", "if true || previous.Reason != ReasonTerminated"},
}

var shutdownMistakes = []mistake{
	{"any signal ends workloads", "login1.go", "owner == nil || signal.Sender != *owner", "owner == nil"},
	{"a delay that is long enough is configured", "delay.go", "if now >= needed && !hides {", "if now >= needed && !hides && false {"},
	{"what a kubelet asks for is hidden", "dropin.go", "d.found && (!d.known || d.delay < needed)", "true"},
	{"the lock stays after the end", "end.go", "m.hold(nil) // also", "_ = m // also"},
	{"a cancelled shutdown ends the next group", "end.go", "if ctx.Err() != nil {", "if false {"},
	{"pods are admitted during a shutdown", "manager.go", "if m.Until().IsZero() {", "if true {"},
	{"a shutdown that began before is missed", "session.go", "case preparing:", "case preparing && false:"},
}

var shutdownReplacedMistakes = []mistake{
	{"what a shutdown ended is replaced while its node is away", "evicted.go", "(share.Runs || r.fleet.Shims.ShutsDown(share.Node))", "share.Runs"},
	{"what a shutdown ended is replaced while it runs", "evicted.go", "(share.Runs || r.fleet.Shims.ShutsDown(share.Node))", "r.fleet.Shims.ShutsDown(share.Node)"},
	{"what a shutdown ended waits as what was evicted", "evicted.go", "if share.ShutDown || share.LateSince", "if share.LateSince"},
	{"what a shutdown ends again and again is replaced at once", "evicted.go", "if by != byEviction && by != byShutdown {", "if by != byEviction {"},
}

var drainMistakes = []mistake{
	{"a toleration of everything outlasts a drain", "placement.go", "return t.Key == v1alpha1.TaintDrain })", `return t.Key == v1alpha1.TaintDrain || t.Key == "" })`},
	{"a drain that is on hold ends", "placement.go", "hold = hold && t.Value == v1alpha1.TaintDrainHold", "hold = false"},
}
