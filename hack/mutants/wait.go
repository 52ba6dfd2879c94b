// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// waitMistakes are about changes that wait for images, which the comparison with the
// kubelet does without.
var waitMistakes = []mistake{
	{"a container is killed for a change although its image is missing", "planner.lacksImage",
		"if prepared.Ref != \"\" {\n\t\treturn p.held\n\t}", "if true {\n\t\treturn p.held\n\t}"},
	{"a container is killed although the image of a volume is missing", "planner.awaitsImage",
		"range ImageKeysOf(p.Pod, c) {", "range []ImageKey{ImageKeyOf(c)} {"},
	{"a failed probe waits for an image", "planner.awaitsImage",
		"if !p.Differences.PullBeforeKill {\n\t\treturn false\n\t}\n\tawaits", "if !p.Differences.PullBeforeKill {\n\t\treturn false\n\t}\n\tp.Probes = nil\n\tawaits"},
	{"what waits hides a failed probe", "planner.ruleFor",
		"waits = true", "return nil"},
	{"a sandbox is replaced although an image is missing", "planner.heldChange",
		"if p.held = held; !held {", "if p.held = held; true {"},
	{"a sandbox does not wait for the images of init containers", "planner.startedIn",
		"containers = append(containers, &p.Pod.Spec.InitContainers[i])", "_ = i"},
	{"a sandbox that waits gets containers of the new template", "planner.startable",
		"if !p.held && !(p.outdated(c) && p.awaitsImage(c)) {", "if !(p.outdated(c) && p.awaitsImage(c)) {"},
	{"an old container that has exited is replaced without its image", "planner.startable",
		"if !p.held && !(p.outdated(c) && p.awaitsImage(c)) {", "if !p.held {"},
	{"a container is killed for a change although an object is missing", "planner.lacksObjects",
		"lacks = true", "lacks = false"},
	{"a container waits for an object of another one", "planner.lacksObjects",
		"m.Container != \"\" && m.Container != c.Name", "false"},
	{"a sandbox that waits for objects only is not kept", "planner.holdStarts",
		"if !p.Differences.PullBeforeKill && !p.held {", "if len(p.actions.Waits) == 0 {"},
	{"a container that waits is resized", "planner.keep",
		"if !p.held && !slices.Contains(p.actions.Kept, f.container.Name) {", "if true {"},
	{"a crash restarts from an image that was pulled for a change", "planner.replaced",
		"if s == nil || p.outdated(c) ||", "if true || p.outdated(c) ||"},
	{"a pull for another network mode is given up again and again", "planner.replaced",
		"!p.Unconfirmed && networkOf(newest) != networkFor(p.Pod) ||", "false ||"},
	{"what was pulled before the kill is pulled again", "planner.imageNeed",
		"case prepared.Pulled && p.replaced(c):", "case false:"},
	{"a sidecar that waits is judged by the new template's startup probe", "sidecarStarted",
		"return f.probed.StartupProbe == nil ||", "return f.container.StartupProbe == nil ||"},
	{"a foreign container has a sandbox wait", "planner.anyMayRun",
		"&& !Foreign(p.Pod, &s)", ""},
	{"a second change makes the probes of the first one be forgotten", "Made.Note",
		"c = m[s.ID]", "c = nil"},
	{"a container that waits is killed by the new template's probes", "ProbedPod",
		"c.LivenessProbe, c.StartupProbe = nil, nil", "_ = c"},
}
