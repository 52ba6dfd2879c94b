// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// NewGrace makes a case of grace-table.
func NewGrace(seed uint64, n int) *recordings.Grace {
	d := newDice(seed, uint64(n))
	probe := func(list ...int64) *recordings.ProbeGrace {
		if d.chance(20) {
			return nil
		}
		return &recordings.ProbeGrace{Seconds: maybe(d, list...)}
	}
	return &recordings.Grace{
		ID:       fmt.Sprintf("grace-%d-%d", seed, n),
		Deletion: maybe[int64](d, 0, 1, 2, 17, 3600),
		Pod:      maybe[int64](d, -1, 0, 1, 2, 30),
		Startup:  probe(0, 1, 5, 60, 3600), Liveness: probe(0, 1, 7, 90, 3600),
		Reason: pick(d, "", "Unknown", "StartupProbe", "LivenessProbe", "FailedPostStartHook", "RestartAllContainers"),
	}
}

// NewEffectiveGrace makes a case of effective-grace.
func NewEffectiveGrace(seed uint64, n int) *recordings.EffectiveGrace {
	d := newDice(seed, uint64(n))
	return &recordings.EffectiveGrace{
		ID:       fmt.Sprintf("effective-grace-%d-%d", seed, n),
		Current:  pick[int64](d, 0, 1, 2, 5, 10, 30, 3600),
		Deletion: maybe[int64](d, 0, 1, 2, 10, 30, 60), Override: maybe[int64](d, 0, 1, 2, 10, 30, 60),
		Pod: maybe[int64](d, 0, 1, 5, 30, 3600),
	}
}

// NewBackoff makes a case of backoff.
func NewBackoff(seed uint64, n int) *recordings.Backoff {
	d := newDice(seed, uint64(n))
	c := &recordings.Backoff{ID: fmt.Sprintf("backoff-%d-%d", seed, n), Container: "c0", ExpireSeconds: 600}
	limits := pick(d, [2]float64{10, 300}, [2]float64{10, 300}, [2]float64{10, 300}, [2]float64{10, 120}, [2]float64{5, 5},
		[2]float64{1, 60}, [2]float64{1, 1})
	c.BaseSeconds, c.MaxSeconds = limits[0], limits[1]
	var now, finished float64
	// The wait as far as it is known, to come near its end.
	wait, image := c.BaseSeconds, "busybox"
	for i := range 8 + d.IntN(32) {
		if i > 0 {
			now += pick(d, 0, 0, 1, 4.5, 0.25, 7, 39, 300, 400, 599, 600, 600.5, 601, 900,
				wait, wait, wait-0.5, wait+0.001, wait/2, max(0, finished+wait-now), max(0, finished+600-now), max(0, finished+601-now))
		}
		if d.chance(55) {
			finished = max(finished, now-pick(d, 0, 0, 0, 1, 5, 30, wait, 2*wait))
		}
		wait = pick(d, wait, min(2*wait, c.MaxSeconds), c.BaseSeconds)
		if d.chance(4) {
			image = fmt.Sprintf("busybox:%d", d.IntN(9))
		}
		c.Steps = append(c.Steps, recordings.BackoffStep{
			Now: now, FinishedAt: finished, State: "exited", Image: image, CreatedFirst: d.chance(6), GCAfter: d.chance(5),
		})
	}
	return c
}
