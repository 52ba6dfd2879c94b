// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var killMistakes = []mistake{
	{"a container whose signal cannot be sent is never deleted", "Executor.hurried",
		"return !k.Grace.IsOver(now.Sub(failed.first))", "return true"},
	{"a kill that fails at once gives no time", "Executor.hurried",
		"return !k.Grace.IsOver(now.Sub(failed.first))", "return false"},
	{"what was forced is graceful if the kernel has ever killed a process of it", "outcomeOf",
		"case after.ExitCode == exitCodeSIGKILL && e.stopped", "case e.killed() && e.stopped"},
	{"what left before the force, and was seen late, is forced", "ending.leftBeforeForce",
		"return e.steady() &&", "return false && e.steady() &&"},
	{"a kill has ended when that was seen", "ending.seenLate",
		"return e.after.State == plan.ContainerExited &&", "return false &&"},
	{"what has exited beside an error is killed again", "kill.exitedNevertheless",
		"return after.State == plan.ContainerExited &&", "return false &&"},
	{"a runtime that does not answer gives no time", "Executor.hurried",
		"case runtimeerror.IsUnavailable(err) && !k.hadItsTime():", "case false:"},
	{"a kill that failed long ago counts for another", "Executor.hurried",
		"failed == nil || failed.isOver(now)", "failed == nil"},
}
