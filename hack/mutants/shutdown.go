// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var shutdownPlanMistakes = []mistake{
	{"a shutdown gives all a group's time", "DecideShutdown", "override = min(override, *own)", "_ = own"},
	{"a pod between two periods ends with the later ones", "ShutdownGroups", "groups[at+1].Priority <= priorityOf(pod)", "groups[at].Priority < priorityOf(pod)"},
	{"a critical class counts as any other", "priorityOf", "case podspec.IsNodeCritical(pod):", "case false:"},
	{"what a shutdown ended forgets why", "ShutDown", "if previous == nil || previous.Reason != ReasonTerminated", "if true || previous.Reason != ReasonTerminated"},
}

var shutdownMistakes = []mistake{
	{"any signal ends workloads", "login1.read", "owner == nil || signal.Sender != *owner", "owner == nil"},
	{"a delay that is long enough is configured", "Manager.raiseDelay", "if now >= needed && !hides {", "if now >= needed && !hides && false {"},
	{"what a kubelet asks for is hidden", "delay.tooLittle", "d.found && (!d.known || d.delay < needed)", "true"},
	{"the lock stays after the end", "Manager.end", "m.hold(nil)", "_ = m"},
	{"a cancelled shutdown ends the next group", "Manager.end", "if ctx.Err() != nil {", "if false {"},
	{"pods are admitted during a shutdown", "Manager.Admit", "if m.Until().IsZero() {", "if true {"},
	{"a shutdown that began before is missed", "Manager.resume", "case preparing:", "case preparing && false:"},
	{"an inhibitor is not taken again after a cancelled shutdown", "Manager.handle",
		"case Cancelled, Restarted:\n\t\treturn", "case Cancelled:\n\t\tm.cancelled()\n\tcase Restarted:\n\t\treturn"},
	{"an inhibitor is not taken again of a logind that was restarted", "Manager.handle",
		"case Cancelled, Restarted:", "case Restarted:\n\tcase Cancelled:"},
	{"a connection that is lost cancels a shutdown", "Manager.session",
		"return errLost", "m.cancelled()\n\t\t\t\treturn errLost"},
	{"the shim ends before the workloads of the node that shuts down", "Manager.Outlast",
		"m.awaitEnd()", "_ = m.awaitEnd"},
	{"a group that does not end holds up a shutdown for ever", "Manager.await",
		"case <-over.C:\n\t\t\treturn left", "case <-over.C:"},
	{"an inhibitor that was replaced is never released", "Manager.hold",
		"if before == nil {", "if before == nil || lock != nil {"},
	{"a delay without end is not understood", "parseSpan",
		`if text == "infinity" {`, `if text == "" {`},
	{"of two files of one name that of the first directory counts", "othersDelay",
		`if strings.HasSuffix(name, ".conf") && name != dropIn && name != lastDropIn {`, `if strings.HasSuffix(name, ".conf") && name != dropIn && name != lastDropIn && paths[name] == "" {`},
}

var shutdownReplacedMistakes = []mistake{
	{"what a shutdown ended is replaced while its node is away", "Reconciler.awaitsNode", "(share.Runs || r.fleet.Shims.ShutsDown(share.Node))", "share.Runs"},
	{"what a shutdown ended is replaced while it runs", "Reconciler.awaitsNode", "(share.Runs || r.fleet.Shims.ShutsDown(share.Node))", "r.fleet.Shims.ShutsDown(share.Node)"},
	{"what a shutdown ended waits as what was evicted", "scope.lastReplaced", "if share.ShutDown || share.LateSince", "if share.LateSince"},
	{"what a shutdown ends again and again is replaced at once", "Reconciler.noteReplaced", "if by != byEviction && by != byShutdown {", "if by != byEviction {"},
}

var drainMistakes = []mistake{
	{"a toleration of everything outlasts a drain", "Placer.drained", "return t.Key == v1alpha1.TaintDrain })", `return t.Key == v1alpha1.TaintDrain || t.Key == "" })`},
	{"a drain that is on hold ends", "Placer.drained", "hold = hold && t.Value == v1alpha1.TaintDrainHold", "hold = false"},
}
