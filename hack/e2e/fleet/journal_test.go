// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// downAtOnce is the largest number of nodes whose container was down at one moment: from
// its SIGTERM until the next one has run for a while. All nodes have the same clock.
func (w *workload) downAtOnce(until time.Duration) int {
	w.t.Helper()
	type change struct {
		at    time.Time
		delta int
	}
	var changes []change
	for _, n := range env.Stack.Nodes {
		down := false
		for _, entry := range w.Journal(n.NodeName()) {
			switch {
			case !down && entry.Text == "signal SIGTERM":
				changes, down = append(changes, change{entry.Time, 1}), true
			case down && strings.HasPrefix(entry.Text, "started"):
				changes, down = append(changes, change{entry.Time.Add(until), -1}), false
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.delta, b.delta)) })
	most, now := 0, 0
	for _, c := range changes {
		now += c.delta
		most = max(most, now)
	}
	return most
}
