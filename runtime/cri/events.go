// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

const (
	// settleTime is how long a new stream must last to count as healthy: only
	// then has the runtime surely subscribed it, and a runtime without events
	// would have said so.
	settleTime = time.Second
	// unimplementedRetry is the pause before a runtime without events is asked
	// again: it may have been upgraded.
	unimplementedRetry = time.Minute
	// maxPending bounds the set of pods to wake; more than that is all of them.
	maxPending = 4096
)

// Every is the UID that stands for every pod in Watch's notifications.
const Every types.UID = ""

// Healthy reports whether container events arrive. While they do not, the caller
// must list the runtime itself, as often as it wants to know.
func (c *Client) Healthy() bool {
	return c.healthy.Load()
}

// Watch calls notify with the UID of each pod that something happened to, until
// the context ends. Events only wake: the facts must be read. Every stands for
// all pods: something may have been missed, or it is not known whose event it
// was. Notifications about one pod that wait are one. notify may take its time,
// the runtime's stream is drained meanwhile.
func (c *Client) Watch(ctx context.Context, notify func(uid types.UID)) error {
	pending := newPending()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.keepFollowing(ctx, pending)
	}()
	defer func() { <-done }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pending.wake:
			for _, uid := range pending.take() {
				notify(uid)
			}
		}
	}
}

// keepFollowing follows again after a panic. Without events the caller lists.
func (c *Client) keepFollowing(ctx context.Context, pending *pending) {
	for ctx.Err() == nil {
		err := panics.Contain(logr.FromContextOrDiscard(ctx), "event stream", func() error {
			c.follow(ctx, pending)
			return nil
		})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(maxReconnect):
		}
	}
}

// follow keeps a stream of events open until the context ends.
func (c *Client) follow(ctx context.Context, pending *pending) {
	defer c.healthy.Store(false)
	pause := minReconnect
	for ctx.Err() == nil {
		lasted, err := c.stream(ctx, pending)
		c.healthy.Store(false)
		if ctx.Err() != nil {
			return
		}
		if lasted {
			pause = minReconnect
		}
		wait := pause
		if runtimeerror.IsUnimplemented(err) {
			wait = unimplementedRetry
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("No container events from the runtime", "reason", err.Error(), "retryAfter", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		pause = min(2*pause, maxReconnect)
	}
}

// stream reads one stream to its end. It reports whether the stream was healthy,
// and why it ended.
func (c *Client) stream(ctx context.Context, pending *pending) (lasted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- panics.Contain(logr.FromContextOrDiscard(ctx), "event stream", func() error { return c.drain(events, pending) })
	}()
	// What happened before the subscription is found by a list.
	pending.add(Every)
	settled := time.NewTimer(c.settle)
	defer settled.Stop()
	for {
		select {
		case err := <-ended:
			return lasted, err
		case <-settled.C:
			lasted = true
			c.healthy.Store(true)
			pending.add(Every)
		}
	}
}

// drain never blocks but for the next event: a slow reader would stall the
// runtime.
func (c *Client) drain(events grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], pending *pending) error {
	for {
		event, err := events.Recv()
		if err != nil {
			return err
		}
		pending.add(c.eventOwner(event))
	}
}

// eventOwner is the pod of an event; Every when that is not known. The runtime
// sends no sandbox status once the sandbox is removed.
func (c *Client) eventOwner(event *runtimeapi.ContainerEventResponse) types.UID {
	if uid := event.GetPodSandboxStatus().GetMetadata().GetUid(); uid != "" {
		return types.UID(uid)
	}
	for _, s := range event.GetContainersStatuses() {
		if uid := s.GetLabels()[labelPodUID]; uid != "" {
			return types.UID(uid)
		}
	}
	uid, _ := c.statuses.owner(event.GetContainerId())
	return uid
}

// pending is a set of pods to wake, and a channel that says that it is not
// empty.
type pending struct {
	wake chan struct{}
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

func newPending() *pending {
	return &pending{wake: make(chan struct{}, 1), uids: map[types.UID]struct{}{}}
}

func (p *pending) add(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, all := p.uids[Every]
	switch {
	case all:
	case uid == Every || len(p.uids) >= maxPending:
		p.uids = map[types.UID]struct{}{Every: {}}
	default:
		p.uids[uid] = struct{}{}
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pending) take() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []types.UID
	for uid := range maps.Keys(p.uids) {
		out = append(out, uid)
	}
	clear(p.uids)
	return out
}
