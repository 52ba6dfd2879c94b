// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var planPressureMistakes = []mistake{
	{"a threshold at its value is met", "ThresholdsMet", "want.Cmp(*has.Available) > 0 {", "want.Cmp(*has.Available) >= 0 {"},
	{"the minimum to reclaim does not count", "Observations.closest", "if strict && t.MinReclaim != nil {", "if false {"},
	{"of two file systems the first counts", "Observations.closest", "!found || left.Cmp(least) < 0 {", "!found || left.Cmp(least) < -1 {"},
	{"a soft threshold counts at once", "Pressure.Look", "if now.Sub(since) >= t.GracePeriod {", "if true {"},
	{"a threshold that was met in between has been met all along", "Pressure.Look", "since, before := p.Since[t]\n\t\tif !before {", "since, before := p.Since[t]\n\t\tif !before && len(p.Since) == 0 {"},
	{"what was met is resolved without its minimum", "Pressure.Look", "range ThresholdsMet(p.Unresolved, observed, true) {", "range ThresholdsMet(nil, observed, true) {"},
	{"conditions end at once", "Pressure.Conditions", "seen && now.Sub(at) < transition {", "seen && now.Equal(at) {"},
	{"conditions last for ever", "Pressure.Conditions", "seen && now.Sub(at) < transition {", "seen && (now.Sub(at) < transition || true) {"},
	{"a soft threshold counts before a hard one", "byUrgency", "return cmpBool(a.hard(), b.hard())", "return cmpBool(b.hard(), a.hard())"},
	{"images go for memory", "ReclaimsImages", "case SignalMemoryAvailable, SignalPIDAvailable:\n\t}\n\treturn false", "case SignalMemoryAvailable, SignalPIDAvailable:\n\t}\n\treturn true"},
	{"images on a disk of their own go for nodefs", "ReclaimsImages", "return !separate\n\tcase SignalMemoryAvailable", "return true\n\tcase SignalMemoryAvailable"},
	{"a soft threshold without a grace period is taken", "EvictionFlags.softGrace", "if !found {\n\t\treturn 0, fmt.Errorf(\"--eviction-soft-grace-period must give a grace period for %s\"", "if !found && false {\n\t\treturn 0, fmt.Errorf(\"--eviction-soft-grace-period must give a grace period for %s\""},
	{"a percentage of NaN is taken", "parseValue", "err != nil || math.IsNaN(percentage) {", "err != nil || math.IsNaN(0) {"},
	{"0% is a threshold", "parseThreshold", "if text == \"0%\" || text == \"100%\" {", "if text == \"100%\" {"},
	{"requests do not matter", "byUse", "order = cmpBool(exceeds(a), exceeds(b))", "order = cmpBool(exceeds(a), exceeds(a))"},
	{"priorities do not matter", "byUse", "if order = cmp.Or(order, byPriority(a, b)); order", "if order = cmp.Or(order, 0); order"},
	{"who uses least goes first", "byUse", "return overB.Cmp(overA)", "return overA.Cmp(overB)"},
	{"who was not measured goes last", "byUse", "order := cmpBool(a.Use == nil, b.Use == nil)", "order := cmpBool(b.Use == nil, a.Use == nil)"},
	{"a volume in memory is on the disk", "ofLocalVolumes", "v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault", "v.EmptyDir != nil"},
	{"overhead does not count", "requested", "set && !request.IsZero() {", "false && set {"},
	{"a critical workload is ended for the node", "DecidePressureEviction", "e.Candidate.Pod == nil || critical(e.Candidate.Pod) {", "e.Candidate.Pod == nil {"},
	{"a soft threshold leaves no grace", "PressureEviction.override", "case e.Threshold.hard():", "case true:"},
	{"the node's longest grace period does not bound", "PressureEviction.override", "return new(min(e.MaxGraceSeconds, *pods))", "return new(*pods)"},
	{"a critical workload is not admitted", "AdmitUnderPressure", "len(conditions) == 0 || critical(pod) {", "len(conditions) == 0 {"},
	{"memory pressure refuses what requests something", "AdmitUnderPressure", "podspec.QOSClass(pod) != corev1.PodQOSBestEffort ||", ""},
	{"disk pressure admits what requests something", "AdmitUnderPressure", "len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure &&", "len(conditions) == 1 &&"},
	{"an eviction for the node is restored as one for a limit", "Evicted", "if strings.HasPrefix(previous.Message, lowPrefix) {", "if false {"},
}

var pressureMistakes = []mistake{
	{"all workloads are ended in one round", "Manager.evict", "m.awaitEnd(ctx, c.Pod, end)\n\t\treturn nil", "m.awaitEnd(ctx, c.Pod, end)"},
	{"an evicted workload is not waited for", "Manager.evict", "m.awaitEnd(ctx, c.Pod, end)", "_ = m.awaitEnd"},
	{"one that hangs is waited for for ever", "Manager.awaitEnd", "if released || now.After(gone) {", "if released || now.After(gone) && false {"},
	{"workloads end although nothing is known of them", "Manager.candidates", "return nil, fmt.Errorf(\"measure what workloads use: %w\", err)", "_ = fmt.Errorf(\"measure what workloads use: %w\", err)"},
	{"workloads end before images go", "Manager.round", "switch m.reclaimed(ctx, threshold.Signal, separate) {", "switch reclaimTooLittle {"},
	{"conditions are forgotten at a restart", "New", "if m.Enabled() {\n\t\tm.restore", "if false {\n\t\tm.restore"},
	{"conditions are kept for a whole period after a restart", "Manager.restore", "now.Add(-max(age, 0))", "now.Add(-max(age, 0) * 0)"},
	{"who waits is not asked about again when the pressure is over", "Manager.setConditions", "if changed {", "if changed && len(conditions) > 0 {"},
	{"file pages that are not in use are not available", "Machine.workingSet", "above(stat[\"anon\"]+stat[\"file\"], stat[\"inactive_file\"])", "stat[\"anon\"]+stat[\"file\"]"},
	{"cgroup v1 counts a part of the file pages that are not in use", "Machine.workingSet", "stat[\"total_inactive_file\"]", "stat[\"inactive_file\"]"},
	{"only one of the kernel's limits of processes counts", "Machine.pids", "if limit == 0 || n < limit {", "if limit == 0 {"},
	{"the file system of the logs does not count", "Machine.Observe", "if logs != nil && (state == nil || logs.device != state.device) {", "if false {"},
	{"one file system counts twice", "Machine.Observe", "(state == nil || logs.device != state.device) {", "true {"},
}
