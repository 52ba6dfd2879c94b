// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"math"
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
	// The wait between two tries of an event, where the API server does not ask for another.
	backlogRetryMin = time.Second
	backlogRetryMax = 30 * time.Second
	// maxAnswers is how often the API server may answer with an error, while it takes others, until an event is
	// lost. (client-go tools/record/event.go:maxTriesPerEvent)
	maxAnswers = 12
	// manyFailures is after how many failures in succession tries are slow, whatever they are about.
	manyFailures = 10
)

// lateEvent is an event that the API server has not taken yet. patch is what it adds to one that
// was written before, nil where it is new.
type lateEvent struct {
	event *corev1.Event
	patch []byte
	retry
}

// retry is what came of the tries of an event that the API server answered with an error of its own.
type retry struct {
	// wait is the last one between two tries, zero before the first, and due when it ends.
	wait time.Duration
	due  time.Time
	// answers counts those errors between which the API server took another event, and taken is how many it had
	// taken at the last.
	answers, taken int
}

// failed notes a try, and reports whether there is another. taken is how many events the API server has taken.
func (r *retry) failed(taken int, now time.Time) bool {
	if r.wait > 0 && r.taken != taken {
		r.answers++
	}
	r.taken = taken
	r.wait = min(max(2*r.wait, backlogRetryMin), backlogRetryMax)
	r.due = now.Add(r.wait)
	return r.answers < maxAnswers
}

// eventBacklog holds events while the API server takes none, and writes them when it does: the
// newest first, so that what people look for does not come minutes late. One that it answers with an error of its
// own holds up no other: a webhook may fail for one namespace.
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
		same := e.event.Name != "" && e.event.Name == late.event.Name && e.event.Namespace == late.event.Namespace
		if same {
			late.retry = e.retry
		}
		return same
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

// empty reports whether no event waits.
func (b *eventBacklog) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) == 0
}

// next returns the event that is tried next: the newest that was not tried yet, or else the one that is due first.
// nil: none waits.
func (b *eventBacklog) next() *lateEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next *lateEvent
	for _, e := range slices.Backward(b.events) {
		if next == nil || e.due.Before(next.due) {
			next = e
		}
	}
	return next
}

func (b *eventBacklog) remove(late *lateEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = slices.DeleteFunc(b.events, func(e *lateEvent) bool { return e == late })
}

// run writes what waits until the context is done.
func (b *eventBacklog) run(ctx context.Context) error {
	delay, taken, failures := backlogRetryMin, 0, 0
	for ctx.Err() == nil {
		late := b.next()
		wait := time.Duration(math.MaxInt64)
		if late != nil {
			wait = time.Until(late.due)
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-b.added:
			case <-time.After(wait):
			}
			continue
		}
		err := b.try(ctx, late)
		if !mayPass(err) {
			b.remove(late)
			delay, failures = backlogRetryMin, 0
			if err == nil {
				taken++
			}
			continue
		}
		pause := delay
		asked, ok := apierrors.SuggestsClientDelay(err)
		switch {
		case ok && asked > 0:
			pause = min(time.Duration(asked)*time.Second, backlogRetryMax)
		case apierrors.IsInternalError(err):
			b.failed(late, taken, err)
			pause = 0
			if failures++; failures >= manyFailures {
				pause = backlogRetryMin
			}
		default:
			delay = min(2*delay, backlogRetryMax)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// failed notes the failure of an event, which is lost after too many.
func (b *eventBacklog) failed(late *lateEvent, taken int, err error) {
	b.mu.Lock()
	again := late.retry.failed(taken, time.Now())
	b.mu.Unlock()
	if !again {
		b.log.Info("Dropped an event: the API server fails to take it", "reason", late.event.Reason, "message", late.event.Message, "error", err.Error())
		b.remove(late)
	}
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
