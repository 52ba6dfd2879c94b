// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var subresourceMistakes = []mistake{
	{"a token is for any audience", "handler.mayHave",
		"token.Audience == audience &&", ""},
	{"a token lasts longer than the template asks for", "handler.mayHave",
		"&& seconds <= token.ExpirationSeconds", "&& seconds != 0"},
	{"a token may have any lifetime", "handler.makeToken",
		"min(max(seconds, minExpiration), maxExpiration)", "max(seconds, minExpiration)"},
	{"a token is not bound to the node", "handler.makeToken",
		`BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: c.node, UID: c.uid}`, "BoundObjectRef: nil"},
	{"a token of another service account is given", "handler.mayHave",
		`asked.Name != "" && asked.Name != account ||`, ""},
	{"a node that was made again under its name is the same", "caller.fits",
		"case node.UID != c.uid:", "case false:"},
	{"a node takes up all requests", "places.take",
		"if p.taken[of] >= p.most {", "if p.taken[of] >= 1000*p.most {"},
	{"who is no shim takes the requests of one", "places.take",
		"place{c.user.GetName(), c.node}", `place{"", c.node}`},
	{"a node posts what another one uses", "handler.takeUsage",
		"if posted.Name != c.node {", "if false {"},
	{"who may report no more watches on", "handler.keepChecking",
		"case errors.As(err, &refused), time.Since(known) >= uncheckedFor:", "case !errors.As(err, &refused) && time.Since(known) >= uncheckedFor:"},
	{"what two replicas have of a node counts twice", "handler.allNodeUsages",
		"return slices.CompactFunc(all, func(a, b v1alpha1.NodeUsage) bool { return a.Name == b.Name })", "return all"},
	{"what a node posted is shown for ever", "nodeUsed.expired",
		"now.Sub(n.received) >= usageLife", "false"},
	{"any certificate is that of a replica", "peers.verify",
		"if !bytes.Equal(own.Certificate[0], state.PeerCertificates[0].Raw) {", "if bytes.Equal(own.Certificate[0], nil) {"},
	{"any client of the front proxy's CA is the front proxy", "trust",
		`lists["allowed-names"], lists["username-headers"]`, `nil, lists["username-headers"]`},
	{"a replica that does not answer is not missed", "gather",
		"complete = false", "complete = true"},
	{"a token of another namespace's account is asked for", "handler.mayHave",
		`|| asked.Namespace != "" && asked.Namespace != namespace`, ""},
}
