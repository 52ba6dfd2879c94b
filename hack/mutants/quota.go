// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var quotaMistakes = []mistake{
	{"two workloads get the same room of a quota", "Ledger.Ask",
		"maps.Copy(promises, room.mine)", "_ = room.mine"},
	{"what a NodeWorkload has and was promised counts twice", "Held.of",
		"most[name] = amount", "amount.Add(known); most[name] = amount"},
	{"a quota whose use is not known has room", "account.refuses",
		"unknown = append(unknown, string(name))", "_ = unknown"},
	{"room that nothing was written for is kept", "Room.Close",
		"delete(promises, key)", ""},
}
