// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var shimMistakes = []mistake{
	{"a deleted Lease is never made again", "lease.renew",
		"(apierrors.IsConflict(err) || apierrors.IsNotFound(err))", "apierrors.IsConflict(err)"},
	{"a Lease that was changed elsewhere is never renewed again", "lease.renew",
		"(apierrors.IsConflict(err) || apierrors.IsNotFound(err))", "apierrors.IsNotFound(err)"},
	{"a NotReady Node is not corrected", "node.heartbeat",
		"ready != nil && ready.Status == condition.Status && !n.written", "ready != nil && !n.written"},
	{"the taint of a NotReady Node stays", "node.keepLabelsAndTaints",
		"return t.MatchTaint(&notReady) })", "return false })"},
	{"a kubelet's Node is taken over", "node.register",
		"if found.Labels[labelRegisteredBy] != registeredByShim {", "if false {"},
	{"a missing kind counts as an absent object", "objectAbsent",
		"ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == name", `ok && (status.ErrStatus.Details != nil || name != "")`},
	{"an object that is there counts as absent", "instanceAbsent",
		"return nw.UID != id.UID, nil", "return true, nil"},
	{"a failed read counts as an absent object", "instanceAbsent",
		"return false, fmt.Errorf(", "return true, fmt.Errorf("},
	{"many orphans at once are killed", "decideOrphans",
		"case many:", "case many && false:"},
	{"workloads of another cluster are killed", "decideOrphans",
		"case elsewhere:", "case false:"},
	{"an old confirmation counts for other orphans", "hold",
		"if in.Confirmed == token {", `if in.Confirmed != "" {`},
	{"a warning about a resolver configuration comes at each start", "dnsWarnings.isNew",
		"if slices.Contains(w.sent[uid], warning) {", "if slices.Contains(w.sent[uid], warning) && false {"},
	{"an event's message has no bound", "bounded",
		"if len(message) <= maxEventMessage {", "if true {"},
	{"runtime conditions are asked once only", "overseer.list",
		"time.Since(o.asked) < conditionsInterval", "!o.asked.IsZero()"},
	{"held orphans are looked at each minute only", "overseer.look",
		"case !usable.OK, o.orphans.holding():", "case !usable.OK:"},
}
