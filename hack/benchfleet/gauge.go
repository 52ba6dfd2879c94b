// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/hack/simnode"
)

// gaugePause is between two looks of a gauge.
const gaugePause = 200 * time.Millisecond

// gauge measures how long a change on a node takes until the status of its ManagedWorkload
// shows it: the readiness probe of one node fails and succeeds in turn.
type gauge struct {
	workload string
	share    types.NamespacedName
}

// Latency is how long changes took, in milliseconds.
type Latency struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
	Max   int64 `json:"max"`
}

// measure measures with all gauges, one after the other, until measuring is done. A look
// that has begun is finished: a slow one counts like the others.
func (f *fleet) measure(ctx, measuring context.Context, gauges []gauge) Latency {
	var took []time.Duration
	for i := 0; measuring.Err() == nil; i++ {
		g := gauges[i%len(gauges)]
		took = append(took, f.flip(ctx, g, true), f.flip(ctx, g, false))
		_ = pause(measuring, gaugePause)
	}
	return summarize(took)
}

// flipTimeout is the longest that a look takes; it is then counted as so long.
const flipTimeout = 2 * time.Minute

// slowFlip is said at once.
const slowFlip = 10 * time.Second

// flip changes the readiness on a node and waits until the status counts it.
func (f *fleet) flip(ctx context.Context, g gauge, failing bool) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, flipTimeout)
	defer cancel()
	was := f.observer.look(g.workload).mw.Status.ReadyNodes
	begun := time.Now()
	f.shims.change(g.share, func(s *simnode.Share) { s.SetFailing(failing) })
	_ = f.observer.await(ctx, g.workload, func(w *observed) bool { // the timeout is a result
		return failing && w.mw.Status.ReadyNodes < was || !failing && w.mw.Status.ReadyNodes > was
	})
	took := time.Since(begun)
	if took > slowFlip {
		progress("  %s of %s took %s", map[bool]string{true: "the failure", false: "the recovery"}[failing], g.workload, took.Round(time.Second))
	}
	return took
}

func summarize(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	at := func(q float64) int64 { return took[min(len(took)-1, int(q*float64(len(took))))].Milliseconds() }
	return Latency{Count: len(took), P50: at(.5), P99: at(.99), Max: took[len(took)-1].Milliseconds()}
}
