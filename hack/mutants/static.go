// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var staticMistakes = []mistake{
	{"a directory that cannot be read ends all", "Source.look",
		"s.setCertain(false)\n\t\treturn interval", "s.setCertain(false)\n\t\ts.endAll(now)\n\t\treturn interval"},
	{"a file that is not accepted ends what ran from it", "Source.wanted",
		"if s.files[w.path].err != nil && w.nw.DeletionTimestamp == nil {", "if false {"},
	{"a file is read while it is written", "Source.read",
		"age >= 0 && age < settled", "age >= 0 && age < 0"},
	{"what runs is replaced by a file of the same name", "Source.wanted",
		"cmp.Or(cmp.Compare(s.rank(a), s.rank(b)), cmp.Compare(a.path, b.path))", "cmp.Compare(a.path, b.path)"},
	{"any workload that no file is about is an orphan while a file is not accepted", "Source.Known",
		"return !s.certain || s.workloads[uid] != nil", "return s.workloads[uid] != nil"},
	{"a file that is written all the time keeps the others from ending", "Source.patience",
		"errors.Is(f.err, errUnsettled) && now.Sub(f.since) < copying {", "errors.Is(f.err, errUnsettled) {"},
	{"a Secret is accepted", "check",
		"for _, path := range objects.Paths(pod, template) {", "for _, path := range objects.Paths(pod, template)[:0] {"},
	{"what ended runs again while its end is kept", "Source.begin", "there || s.stale[uid] {", "there {"},
	{"a workload is not kept for a restart", "Source.replace",
		"return statefile.Replace(s.pathOf(uid), data)", "_ = data\n\treturn nil"},
	{"a backup of an editor runs", "Source.list",
		"entry.IsDir() || isBackup(entry.Name())", "entry.IsDir()"},
	{"what gets another file name ends", "Source.end",
		"now.Sub(w.missing) < patience", "now.Sub(w.missing) < 0*patience"},
	{"what was kept of another node runs", "Source.readKept",
		"|| nw.Spec.NodeName != s.cfg.Node", ""},
	{"what a shutdown of the node ended does not run again", "Source.end",
		"there && !w.shutDown() ||", "there ||"},
}

var manifestMistakes = []mistake{
	{"the first of two objects is read", "onlyDocument",
		"case 1:\n\t\treturn found[0], nil", "default:\n\t\treturn found[0], nil"},
	{"fields that there are not are ignored", "decode",
		"Strict: true", "Strict: false"},
	{"an object of another node is read", "Reader.nodeWorkload",
		"&& r.Node != o.Spec.NodeName", `&& r.Node == ""`},
	{"an error names no line", "lines.located",
		"line > 0", "line < 0"},
	{"an object has no bound", "Reader.Read",
		"if len(data) > MaxSize {", "if false {"},
	{"a static workload may have what a manager honours", "Reader.Read",
		"if r.Static {", "if false {"},
}
