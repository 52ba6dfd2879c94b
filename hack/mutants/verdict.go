// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var templateMistakes = []mistake{
	{"an unknown stop signal is accepted", "checkStopSignal",
		"if !slices.Contains(all, signal) {", "if false {"},
}

var verdictMistakes = []mistake{
	{"the verdict on a template that is made again under its name is the old one", "Judge.Verdict",
		"known.uid != q.Workload.UID ||", ""},
	{"a refusal is for ever", "Judge.Verdict",
		"v.Recheck = q.Now.Add(min(firstRecheck<<min(known.asked, 10), lastRecheck))", "_ = known.asked"},
	{"a namespace that ends refuses templates", "Judge.ask",
		"apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||", ""},
	{"a namespace whose admission is slow has all workers", "namespaces.begin",
		"if len(a.begun) > 0 && a.slow(now) {", "if false {"},
	{"a namespace whose admission was slow has all workers between two answers", "namespaces.end",
		"if now.Sub(began) >= slowAnswer {", "if false {"},
	{"a webhook that is away refuses templates", "isRefusal",
		"apierrors.IsInvalid(err) ||", "err != nil ||"},
	{"a quota that counts NodeWorkloads refuses them", "Judge.uncounted",
		"if _, counted := q.Spec.Hard[countedAs]; counted {", "if _, counted := q.Spec.Hard[countedAs]; counted && false {"},
	{"a quota of other Pods refuses", "Judge.uncounted",
		"quota.LimitsPods(q) && quota.Matches(q, usage)", "quota.LimitsPods(q) && (quota.Matches(q, usage) || true)"},
	{"a negative grace period is taken for another", "negativeGrace",
		"*grace < 0", "*grace < -1000"},
	{"a user chooses the handler of the runtime", "ownAnnotations",
		"if _, set := t.Annotations[v1alpha1.AnnotationRuntimeHandler]; !set {", "if true {"},
	{"admission chooses the handler of the runtime", "Judge.pinHandler",
		"delete(t.Annotations, v1alpha1.AnnotationRuntimeHandler)", ""},
	{"a namespace that gets stricter is not looked at again", "answerAgain.due",
		"|| a.security != security ||", "||"},
	{"each node has admission asked again", "answerAgain.due",
		"(spreads && !now.Before(a.at.Add(goodFor)))", "spreads"},
	{"an API server that does not answer is asked at once again", "Judge.Again",
		"case now.Before(silent):", "case false:"},
	{"a namespace without an answer silences the others", "Judge.Again",
		"j.silent[mw.Namespace]", `j.silent["ns"]`},
	{"a service account that comes with the workload is missing", "Judge.Review",
		"strings.Contains(status.Message, noAccount)", `strings.Contains(status.Message, noAccount+"?")`},
	{"a negative grace period of a deletion is used", "DeletionGrace",
		"if !ok {\n\t\treturn nil, fmt", "if !ok && n == 0 {\n\t\treturn nil, fmt"},
	{"a priority class that has changed refuses what runs", "Judge.askAgain",
		"asked.Spec.Priority = nil", ""},
}
