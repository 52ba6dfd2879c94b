// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var informerMistakes = []mistake{
	{"an API server that was away is asked again after a minute", "passes",
		"return true // there was no answer", "return false"},
	{"an API server that has not read its roles is asked again after a minute", "passes",
		"http.StatusForbidden, ", ""},
	{"what the storage never had is asked for again and again", "passes",
		" && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)", ""},
	{"a server that streams no list is not asked for one", "again",
		"if most > 0 && refusals >= most || ctx", "if ctx"},
	{"an API server that is away is asked without a pause", "Backoff",
		"Factor: 2, ", "Factor: 0, "},
}
