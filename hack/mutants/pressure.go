// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var planPressureMistakes = []mistake{
	{"a threshold at its value is met", "pressure.go", "want.Cmp(*has.Available) > 0 {", "want.Cmp(*has.Available) >= 0 {"},
	{"the minimum to reclaim does not count", "pressure.go", "if strict && t.MinReclaim != nil {", "if false {"},
	{"of two file systems the first counts", "pressure.go", "!found || left.Cmp(least) < 0 {", "!found || left.Cmp(least) < -1 {"},
	{"a soft threshold counts at once", "pressure.go", "if now.Sub(since) >= t.GracePeriod {", "if true {"},
	{"a threshold that was met in between has been met all along", "pressure.go", "since, before := p.Since[t]\n\t\tif !before {", "since, before := p.Since[t]\n\t\tif !before && len(p.Since) == 0 {"},
	{"what was met is resolved without its minimum", "pressure.go", "range ThresholdsMet(p.Unresolved, observed, true) {", "range ThresholdsMet(nil, observed, true) {"},
	{"conditions end at once", "pressure.go", "seen && now.Sub(at) < transition {", "seen && now.Equal(at) {"},
	{"conditions last for ever", "pressure.go", "seen && now.Sub(at) < transition {", "seen && (now.Sub(at) < transition || true) {"},
	{"a soft threshold counts before a hard one", "pressure.go", "return cmpBool(a.hard(), b.hard())", "return cmpBool(b.hard(), a.hard())"},
	{"images go for memory", "pressure.go", "case SignalMemoryAvailable, SignalPIDAvailable:\n\t}\n\treturn false", "case SignalMemoryAvailable, SignalPIDAvailable:\n\t}\n\treturn true"},
	{"images on a disk of their own go for nodefs", "pressure.go", "return !separate\n\tcase SignalMemory", "return true\n\tcase SignalMemory"},
	{"a soft threshold without a grace period is taken", "pressureflags.go", "if !found {\n\t\treturn 0, fmt.Errorf(\"--eviction-soft", "if !found && false {\n\t\treturn 0, fmt.Errorf(\"--eviction-soft"},
	{"a percentage of NaN is taken", "pressureflags.go", "err != nil || math.IsNaN(percentage) {", "err != nil || math.IsNaN(0) {"},
	{"0% is a threshold", "pressureflags.go", "if text == \"0%\" || text == \"100%\" {", "if text == \"100%\" {"},
	{"requests do not matter", "pressurerank.go", "order = cmpBool(exceeds(a), exceeds(b))", "order = cmpBool(exceeds(a), exceeds(a))"},
	{"priorities do not matter", "pressurerank.go", "if order = cmp.Or(order, byPriority(a, b)); order", "if order = cmp.Or(order, 0); order"},
	{"who uses least goes first", "pressurerank.go", "return overB.Cmp(overA)", "return overA.Cmp(overB)"},
	{"who was not measured goes last", "pressurerank.go", "order := cmpBool(a.Use == nil, b.Use == nil)", "order := cmpBool(b.Use == nil, a.Use == nil)"},
	{"a volume in memory is on the disk", "pressurerank.go", "v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault", "v.EmptyDir != nil"},
	{"overhead does not count", "pressurerank.go", "set && !request.IsZero() {", "false && set {"},
	{"a critical workload is ended for the node", "pressureend.go", "e.Candidate.Pod == nil || critical(e.Candidate.Pod) {", "e.Candidate.Pod == nil {"},
	{"a soft threshold leaves no grace", "pressureend.go", "case e.Threshold.hard():", "case true:"},
	{"the node's longest grace period does not bound", "pressureend.go", "return new(min(e.MaxGraceSeconds, *pods))", "return new(*pods)"},
	{"a critical workload is not admitted", "pressureend.go", "len(conditions) == 0 || critical(pod) {", "len(conditions) == 0 {"},
	{"memory pressure refuses what requests something", "pressureend.go", "podspec.QOSClass(pod) != corev1.PodQOSBestEffort || ", ""},
	{"disk pressure admits what requests something", "pressureend.go", "len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure &&", "len(conditions) == 1 &&"},
	{"an eviction for the node is restored as one for a limit", "evict.go", "if strings.HasPrefix(previous.Message, lowPrefix) {", "if false {"},
}

var pressureMistakes = []mistake{
	{"all workloads are ended in one round", "manager.go", "m.awaitEnd(ctx, c.Pod, end)\n\t\treturn nil", "m.awaitEnd(ctx, c.Pod, end)"},
	{"an evicted workload is not waited for", "manager.go", "m.awaitEnd(ctx, c.Pod, end)\n", "_ = m.awaitEnd\n"},
	{"one that hangs is waited for for ever", "manager.go", "if released || now.After(gone) {", "if released || now.After(gone) && false {"},
	{"workloads end although nothing is known of them", "manager.go", "return nil, fmt.Errorf(\"measure what workloads use: %w\", err)", "_ = fmt.Errorf(\"measure what workloads use: %w\", err)"},
	{"workloads end before images go", "manager.go", "if m.reclaimed(ctx, threshold.Signal, separate) {", "if false {"},
	{"conditions are forgotten at a restart", "manager.go", "if m.Enabled() {\n\t\tm.restore", "if false {\n\t\tm.restore"},
	{"conditions are kept for a whole period after a restart", "state.go", "now.Add(-max(age, 0))", "now.Add(-max(age, 0) * 0)"},
	{"who waits is not asked about again when the pressure is over", "manager.go", "\tif changed {\n", "\tif changed && len(conditions) > 0 {\n"},
	{"file pages that are not in use are not available", "kernel.go", "above(stat[\"anon\"]+stat[\"file\"], stat[\"inactive_file\"])", "stat[\"anon\"]+stat[\"file\"]"},
	{"cgroup v1 counts a part of the file pages that are not in use", "kernel.go", "stat[\"total_inactive_file\"]", "stat[\"inactive_file\"]"},
	{"only one of the kernel's limits of processes counts", "kernel.go", "if limit == 0 || n < limit {", "if limit == 0 {"},
	{"the file system of the logs does not count", "node.go", "if logs != nil && (state == nil || logs.device != state.device) {", "if false {"},
	{"one file system counts twice", "node.go", "(state == nil || logs.device != state.device) {", "true {"},
}
