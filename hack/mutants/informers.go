// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var informerMistakes = []mistake{
	{"an API server that was away is asked again after a minute", "passes",
		"return !apierrors.IsResourceExpired(err)", "return false && !apierrors.IsResourceExpired(err)"},
	{"what is too old is asked for again and again", "passes",
		"!apierrors.IsResourceExpired(err) && ", ""},
	{"an API server that is away is asked without a pause", "Backoff",
		"Factor: 2, ", "Factor: 0, "},
}
