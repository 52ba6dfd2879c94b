// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var mirrorMistakes = []mistake{
	{"a node chooses the namespaces of its mirrors", "Reconciler.provide",
		`case ns.Labels[v1alpha1.LabelAllowMirrors] != "true":`, "case false:"},
	{"a node has as many mirrors as it likes", "Reconciler.provide",
		"case len(l.mirrors) >= mirror.Max:", "case false:"},
	{"mirrors that were just made do not count", "Reconciler.Reconcile",
		"!r.index.Seen(known.written) && time.Since", "!r.index.Seen(\"\") && time.Since"},
	{"what is no mirror counts as one", "Reconciler.mirrorsOn",
		`if s.Labels[v1alpha1.LabelStatic] == "true" {`, "if true {"},
	{"a node makes mirrors as fast as it likes", "Reconciler.allow",
		"if !l.held && l.writes.TryAccept() && r.total.TryAccept() {", "if !l.held && r.total.TryAccept() {"},
	{"a refused mirror is asked for at each renewal", "Reconciler.create",
		".backOff(time.Now())", ""},
	{"a mirror that the shim has not seen is a refusal", "Reconciler.create",
		"case apierrors.IsAlreadyExists(err) && r.isMirror(nw, l.node):", "case false:"},
	{"a report deletes what is no mirror", "Reconciler.delete",
		"nw.UID != m.UID, nw.Spec.NodeName != l.node, !mirror.Is(nw):", "nw.UID != m.UID, nw.Spec.NodeName != l.node:"},
	{"a report deletes mirrors of another node", "Reconciler.delete",
		"nw.UID != m.UID, nw.Spec.NodeName != l.node, !mirror.Is(nw):", "nw.UID != m.UID, !mirror.Is(nw):"},
	{"what a node sends fills the log", "Reconciler.sayUnread",
		"if known.unread == reason || !known.words.TryAccept() {", "if known.unread == reason {"},
}
