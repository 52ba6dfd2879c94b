// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var quotaMistakes = []mistake{
	{"two workloads get the same room of a quota", "Ledger.Ask",
		"maps.Copy(promises, room.mine)", "_ = room.mine"},
	{"amounts are raised in the usage that is compared", "largest",
		"maps.Clone(a), true", "a, true"},
	{"what a NodeWorkload has and was promised counts twice", "largest",
		"most[name] = amount", "amount.Add(known); most[name] = amount"},
	{"a change that waits moves what runs out of a scoped quota", "Usage.of",
		"range u.templates {", "range u.templates[:1] {"},
	{"what runs counts in the quotas of what waits", "Usage.With",
		"return known.scopes == t.scopes", "return true"},
	{"a quota whose use is not known has room", "account.refuses",
		"unknown = append(unknown, string(name))", "_ = unknown"},
	{"room that nothing was written for is kept", "Room.Close",
		"delete(promises, key)", ""},
}
