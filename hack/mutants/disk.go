// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var diskUsageMistakes = []mistake{
	{"a hard link counts twice", "walk.add", "if w.linked[s.Ino] {", "if false {"},
	{"what is mounted in a volume counts", "walk.count", "if e.stat.Dev != w.device || w.ends(ctx) {", "if w.ends(ctx) {"},
	{"what is in memory counts as disk", "measurement.volumes", "if onDisk {", "if onDisk || true {"},
	{"a layer on a disk of its own counts for its container", "measurement.layers", "if err == nil && !own {", "if err == nil && (own || !own) {"},
	{"all pods are measured at once", "atOnce", "atOnce = 4", "atOnce = 400"},
}

var evictMistakes = []mistake{
	{"a critical pod is evicted", "DiskLimitsOf", "if pod == nil || critical(pod) {", "if pod == nil {"},
	{"a volume at its limit is evicted", "DiskLimit.exceeded", "return l.Limit.CmpInt64(bytes) < 0", "return l.Limit.CmpInt64(bytes) <= 0"},
	{"of two limits the smaller counts", "larger", "if a.Cmp(*b) < 0 {", "if a.Cmp(*b) > 0 {"},
	{"an evicted workload forgets why it ended", "Evicted",
		"if previous == nil || previous.Reason != ReasonEvicted || !Ended(previous.Phase) {", "if true {"},
}

var diskLimitMistakes = []mistake{
	{"a template that waits evicts", "memory.diskLimits", "return wanted.Loosest(m.rec.DiskLimits)", "return wanted"},
	{"a lower limit counts before it was measured", "memory.withinLimits", "if !plan.DiskLimitsOf(d.pod).Tightens(before) {", "if !plan.DiskLimitsOf(d.pod).Tightens(before) || true {"},
	{"a failed measurement passes", "memory.measured", "m.watch.passed || err == nil", "true"},
}
