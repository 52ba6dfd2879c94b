// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/managedworkload/managedworkload/runtime/panics"
)

const (
	// maxBacklog bounds the events that wait.
	maxBacklog = 1000
	// The wait between two tries, where the API server does not ask for another.
	backlogRetryMin = time.Second
	backlogRetryMax = 30 * time.Second
)

// lateEvent is an event that the API server has not taken yet. patch is what it adds to one that
// was written before, nil where it is new.
type lateEvent struct {
	event *corev1.Event
	patch []byte
}

// eventBacklog holds events while the API server takes none, and writes them when it does: the
// newest first, so that what people look for does not come minutes late.
type eventBacklog struct {
	// write writes one.
	write func(ctx context.Context, late *lateEvent) error
	log   logr.Logger
	// added holds one token.
	added chan struct{}

	mu sync.Mutex
	// events are those that wait, the oldest first.
	events []*lateEvent
}

func newEventBacklog(api typedcorev1.EventsGetter, log logr.Logger) *eventBacklog {
	return &eventBacklog{log: log, added: make(chan struct{}, 1), write: func(ctx context.Context, late *lateEvent) error {
		return writeEvent(ctx, api.Events(late.event.Namespace), late)
	}}
}

// writeEvent patches an event, or creates it where it is new or is not there.
func writeEvent(ctx context.Context, api typedcorev1.EventInterface, late *lateEvent) error {
	if late.patch != nil {
		_, err := api.Patch(ctx, late.event.Name, types.StrategicMergePatchType, late.patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	event := late.event.DeepCopy()
	event.ResourceVersion = ""
	_, err := api.Create(ctx, event, metav1.CreateOptions{})
	return err
}

// put has an event written. Of one event only the newest version waits, because it has all that was
// before it. Of too many the oldest is lost.
func (b *eventBacklog) put(late *lateEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = slices.DeleteFunc(b.events, func(e *lateEvent) bool {
		return e.event.Name != "" && e.event.Name == late.event.Name && e.event.Namespace == late.event.Namespace
	})
	if len(b.events) >= maxBacklog {
		b.log.Info("Dropped an event: too many wait for the API server", "reason", b.events[0].event.Reason, "message", b.events[0].event.Message)
		b.events = slices.Delete(b.events, 0, 1)
	}
	b.events = append(b.events, late)
	select {
	case b.added <- struct{}{}:
	default:
	}
}

// newest returns the newest event that waits, nil if none does.
func (b *eventBacklog) newest() *lateEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return nil
	}
	return b.events[len(b.events)-1]
}

func (b *eventBacklog) remove(late *lateEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = slices.DeleteFunc(b.events, func(e *lateEvent) bool { return e == late })
}

// run writes what waits until the context is done.
func (b *eventBacklog) run(ctx context.Context) error {
	delay := backlogRetryMin
	for ctx.Err() == nil {
		late := b.newest()
		if late == nil {
			select {
			case <-ctx.Done():
			case <-b.added:
			}
			continue
		}
		err := b.try(ctx, late)
		if !mayPass(err) {
			b.remove(late)
			delay = backlogRetryMin
			continue
		}
		wait := delay
		if asked, ok := apierrors.SuggestsClientDelay(err); ok && asked > 0 {
			wait = min(time.Duration(asked)*time.Second, backlogRetryMax)
		} else {
			delay = min(2*delay, backlogRetryMax)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// try writes one event. A panic is an error of it.
func (b *eventBacklog) try(ctx context.Context, late *lateEvent) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	failed := errPanic
	_ = panics.Contain(b.log, "the write of a late event", func() error {
		failed = b.write(ctx, late)
		return nil
	})
	if failed != nil && !mayPass(failed) && !apierrors.IsAlreadyExists(failed) {
		b.log.Info("The API server rejected an event", "reason", failed.Error())
	}
	return failed
}

// errPanic is how the write of an event ends that panics: it would again.
var errPanic = errors.New("panic")

// mayPass reports whether an error of a write is about the API server and its way, not about what
// is written.
func mayPass(err error) bool {
	if err == nil || errors.Is(err, errPanic) {
		return false
	}
	if construction := (*rest.RequestConstructionError)(nil); errors.As(err, &construction) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) // such as etcd without a leader
}
