// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var killMistakes = []mistake{
	{"a container whose signal cannot be sent is never deleted", "Executor.hurried",
		"return !k.Grace.IsOver(time.Since(failed.first))", "return true"},
	{"a kill that fails at once gives no time", "Executor.hurried",
		"return !k.Grace.IsOver(time.Since(failed.first))", "return false"},
	{"a runtime that does not answer gives no time", "Executor.hurried",
		"case runtimeerror.IsUnavailable(err):", "case false:"},
}
