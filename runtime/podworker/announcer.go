// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// How long news that are soon followed by others wait for them: gatherShare times as
// long as the latest write took, so that an API server under load gets fewer.
const (
	gatherMin   = 500 * time.Millisecond
	gatherMax   = 2 * time.Second
	gatherShare = 10
)

// The wait between two tries to publish.
const (
	publishRetryMin = time.Second
	publishRetryMax = 30 * time.Second
)

// publishRetryAsked bounds the wait between two tries that the API server asks for.
const publishRetryAsked = 2 * time.Minute

// How long one try may take: longer after each that took too long, because an API server that is
// slow for a while would otherwise do the work again and again, and never be done.
const (
	publishPatienceMin = 10 * time.Second
	publishPatienceMax = 40 * time.Second
)

// errPanicked is the error of a write that ended in a panic.
var errPanicked = errors.New("panic while publishing")

// announcer writes the latest status of one workload to the API whenever there is news,
// and sends the events that are due after it. The worker does not wait for the API
// server.
type announcer struct {
	mem       *memory
	id        Identity
	publisher Publisher
	events    Events
	metrics   *Metrics
	log       logr.Logger
	// published is called when nothing is left to publish, or to wait for.
	published func()
	// news holds one token: news coalesce.
	news chan struct{}
	// took is how long the latest write took.
	took time.Duration
	// patience is how long the next write may take.
	patience time.Duration
}

// run publishes until the context is done, and tries again when that fails.
func (a *announcer) run(ctx context.Context) {
	retry := idleTimer()
	defer retry.Stop()
	begin := make(chan struct{}, 1)
	signal(begin)
	delay := publishRetryMin
	for {
		news := false
		select {
		case <-ctx.Done():
			return
		case <-a.news:
			news = true
		case <-begin:
		case <-retry.C:
		}
		err := a.guardedPublish(ctx, news)
		switch {
		case err == nil:
			delay = publishRetryMin
		case ctx.Err() != nil:
			return
		default:
			wait := delay
			if asked, ok := apierrors.SuggestsClientDelay(err); ok && asked > 0 {
				wait = min(time.Duration(asked)*time.Second, publishRetryAsked)
			} else {
				delay = min(2*delay, publishRetryMax)
			}
			a.log.Info("Failed to publish status; retrying", "reason", err.Error(), "in", wait.String())
			retry.Reset(jitter(wait))
		}
	}
}

// publish writes a status within the announcer's patience.
func (a *announcer) publish(ctx context.Context, st *v1alpha1.NodeWorkloadStatus) error {
	a.patience = max(a.patience, publishPatienceMin)
	limited, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	begun := time.Now()
	err := a.publisher.Publish(limited, a.id, st)
	a.took = time.Since(begun)
	switch {
	case err == nil:
		a.patience = publishPatienceMin
	case limited.Err() != nil && ctx.Err() == nil:
		a.patience = min(2*a.patience, publishPatienceMax)
	}
	return err
}

// gather waits a moment while a workload is on its way to the state that people wait
// for: to write each step would slow the way down.
func (a *announcer) gather(ctx context.Context) {
	timer := time.NewTimer(min(max(gatherMin, gatherShare*a.took), gatherMax))
	defer timer.Stop()
	for a.mem.hurries() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-a.news:
		}
	}
}

// guardedPublish is the boundary that a panic does not pass: it counts as a failure
// to publish.
func (a *announcer) guardedPublish(ctx context.Context, news bool) error {
	finished := false
	err := panics.Contain(a.log, "publishing", func() error {
		if news {
			a.gather(ctx)
		}
		d := a.mem.beginDispatch()
		defer func() {
			if !finished {
				_, _ = a.mem.endDispatch(d, errPanicked)
			}
		}()
		err := a.dispatch(ctx, d)
		finished = true
		return err
	})
	if !finished {
		a.metrics.panics.Inc()
	}
	return err
}

// dispatch writes what is not published yet, and sends the events about it.
func (a *announcer) dispatch(ctx context.Context, d dispatch) error {
	var err error
	if d.status != nil {
		err = a.publish(ctx, d.status)
	}
	send, failed := a.mem.endDispatch(d, err)
	if send {
		a.send(d.outbox)
		a.published()
	}
	return failed
}

// send sends events, the oldest first.
func (a *announcer) send(o outbox) {
	pod := a.mem.peek().reported()
	if pod == nil {
		return
	}
	for _, n := range o.texts() {
		if annotated, ok := a.events.(AnnotatedEvents); ok && len(n.Annotations) > 0 {
			annotated.AnnotatedEvent(pod, n.Annotations, n.Type, n.Reason, n.Message)
			continue
		}
		a.events.Event(pod, n.FieldPath, n.Type, n.Reason, n.Message)
	}
}
