// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package panics keeps a panic in the part where it happens. The panic of one kill,
// workload, probe or call is an error there, and the others continue. That of a main
// loop of the shim ends the process in order, as an error of that loop does: kills
// under way are cut off with their records open, and the next process finishes them.
// No goroutine that this code starts is without containment; a test of hack/lint looks.
// Nor is what it gives to the goroutines of client libraries: the filter of updates and
// the sink of events. The code of those libraries themselves is not contained.
package panics
