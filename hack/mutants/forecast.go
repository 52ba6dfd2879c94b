// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var forecastMistakes = []mistake{
	{"a plan does not know that a name is taken", "forecaster.gather",
		"f.Taken[placement.NodeWorkloadName(f.After.Name, node.Name)]", "false"},
	{"a plan ends what is being deleted already", "forecaster.gather",
		"if nw.DeletionTimestamp.IsZero() {", "if nw != nil {"},
	{"kills that are asked for take up no budget of a plan", "forecaster.factsOf",
		"rollout.Killing(nw.Spec.Requests, st.Requests)", "false"},
	{"a plan waits for deletions that are under way", "forecaster.settle",
		"case n.Ending:", "case false:"},
	{"a plan waits for kills that are asked for", "forecaster.settle",
		"case n.Killing:", "case false:"},
	{"a plan waits for no deletion where the shim is away", "forecaster.settle",
		"case !n.Responds:", "case false:"},
}
