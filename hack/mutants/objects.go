// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var nodeObjectMistakes = []mistake{
	{"an object that cannot be read for now is forgotten", "entry.next",
		`if e.state != "" && e.state != v1alpha1.ObjectUnavailable {`, "if false {"},
	{"an object that only what runs needs is dropped", "Store.drop",
		"case known && isNeeded:", `case known && isNeeded && key.Name == "":`},
	{"an object that is not sent any more counts as up to date", "Store.Known",
		"if e.left {", "if false {"},
	{"what is missing of an object that is not sent any more is not missing", "Store.upToDate",
		"if s.find(namespace, ref).left {", "if false {"},
	{"a token of an earlier Node is kept", "Tokens.atHand",
		`moved := node != "" && held.node != "" && node != held.node`, "moved := false"},
	{"a token that has expired is used", "Tokens.renew",
		"case now >= held.expires:", "case false:"},
	{"a pod keeps the token of the service account that it had", "Tokens.entry",
		"key := tokenKey{ask, pod.Spec.ServiceAccountName}", `key := tokenKey{ask, ""}`},
	{"a token that was refused is asked for at each use", "Tokens.atHand",
		"waits := now < held.retryAt &&", "waits := now < 0 &&"},
	{"a token is renewed when it expires", "renewAfter",
		"lifetime/5*4", "lifetime/4*5"},
	{"the tokens of a pod that is gone stay", "Tokens.ForgetPod",
		"delete(t.pods, pod)", ""},
	{"a key that an object lacks is not waited for", "missingKey",
		"if found ||", "if found || !found ||"},
	{"what was not received is as good as missing where it is optional", "unless",
		"apierrors.IsNotFound(err) && ptr.Deref(optional, false)", "(apierrors.IsNotFound(err) || err != nil) && ptr.Deref(optional, false)"},
}

var objectHubMistakes = []mistake{
	{"a node has as many watches as it likes", "Hub.Watch",
		"len(others) >= maxWatches", "len(others) >= 100*maxWatches"},
	{"a right that was given is seen by one object", "Hub.set",
		"if allowed {", "if allowed && h.version == 0 {"},
	{"an object that no node needs is read for ever", "Hub.release",
		"if len(o.subscribers) == 0 {", "if len(o.subscribers) < 0 {"},
	{"that an object is missing is believed for as long as that it is there", "answer.fresh",
		"return now.Sub(a.at) < Recheck\n}", "return now.Sub(a.at) < RecheckPresent\n}"},
	{"the initial objects have an end before all were sent", "subscription.next",
		"len(s.awaited) == 0 && !s.bookmarked", "!s.bookmarked"},
	{"an object that the API server does not answer about holds the others up", "subscription.expire",
		"s.overdue = true", "s.overdue = false"},
	{"an object that is immutable is watched", "intake.Update",
		"state.Immutable || i.hub.waits(i.key)", "i.hub.waits(i.key)"},
	{"another object than the one asked for is passed on", "intake.Update",
		"m.GetName() != i.key.Name ||", ""},
	{"a namespace takes all memory", "Hub.fit",
		"s.held+size > maxBytes", "false"},
	{"what leaves makes no place for what waits", "Hub.vacate",
		"s.admit()", "_ = s"},
}
