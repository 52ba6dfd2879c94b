// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
)

const (
	// firstRetry and lastRetry bound the wait after a failed read.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// unwatchedCheck is after how long an object that is not watched is read again, as one that
	// is immutable or that is too much: it may be gone, or be another one of its name.
	unwatchedCheck = 5 * time.Minute
	// steady is how long a watch lasts after which a failure is the first one again.
	steady = time.Minute
)

// object is a ConfigMap or Secret that a connected node needs, or the service account of its tokens.
type object struct {
	hub *Hub
	key apiobjects.Key
	// cancel ends its watch, nil without one.
	cancel context.CancelFunc
	// kick ends a wait.
	kick chan struct{}

	// What follows is guarded by the mutex of the hub.

	// state is what is known of it, nil before the API server answered; it is shared, and not
	// changed. version counts the states of all objects.
	state   *subresources.NodeObject
	version uint64
	// held is what of the namespace's space it takes.
	held        int
	subscribers map[*subscription]bool
}

// runner is what keeps the object's state in step with the API server.
func (o *object) runner() func(ctx context.Context) {
	if o.key.Kind == apiobjects.ServiceAccount {
		return o.runAccount
	}
	return o.run
}

// run keeps the object's state in step with the API server until ctx is done.
func (o *object) run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	for failures := 0; ctx.Err() == nil; {
		begun, delay := time.Now(), lastRetry
		contain.Do(log, func() {
			err := o.follow(ctx)
			if time.Since(begun) > steady {
				failures = 0
			}
			delay = o.settle(ctx, err, failures)
		})
		failures++
		o.pause(ctx, wait.Jitter(delay, 0.5))
	}
}

// follow reads the object and watches it as long as the watch lasts, or until it is known to
// be immutable or too much.
func (o *object) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave, err := o.hub.enter(ctx, o.key)
	if err != nil {
		return err
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	log := logr.FromContextOrDiscard(ctx)
	from := source{client: o.hub.client, key: o.key, watchFor: o.hub.watchFor}
	reflector := toolscache.NewReflectorWithOptions(from, from.example(), intake{o, leave, cancel}, toolscache.ReflectorOptions{Logger: &log, Name: "objects"})
	return reflector.ListAndWatchWithContext(ctx)
}

// settle notes how a watch ended, and returns after how long the next one begins.
func (o *object) settle(ctx context.Context, err error, failures int) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	before := o.hub.stateOf(o)
	if err != nil {
		if state := failed(before, o.key, err, func() string { return o.hub.account.binding(ctx) }); state != nil {
			o.hub.set(o, state)
		}
	} else if before != nil && before.Immutable || o.hub.waits(o.key) {
		return unwatchedCheck
	}
	return min(firstRetry<<min(failures, 10), lastRetry)
}

func (o *object) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-o.kick:
	case <-timer.C:
	}
}

// retry ends a wait after a failed read.
func (o *object) retry() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// intake is a reflector's store that keeps nothing but the hub's state. All methods are called
// by one goroutine.
type intake struct {
	*object
	// read: the object was read, and is watched from here on.
	read func()
	// settled ends the watch.
	settled func()
}

// Add implements cache.ReflectorStore.
func (i intake) Add(obj any) error { return i.Update(obj) }

// Update implements cache.ReflectorStore.
func (i intake) Update(obj any) error {
	state, err := present(i.key, obj)
	if err != nil {
		return err
	}
	if m, err := meta.Accessor(obj); err != nil || m.GetName() != i.key.Name || m.GetNamespace() != i.key.Namespace {
		return fmt.Errorf("the API server answered with another object than %s in namespace %s", named(i.key.Ref), i.key.Namespace)
	}
	i.hub.set(i.object, state)
	if state.Immutable || i.hub.waits(i.key) {
		i.settled()
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (i intake) Delete(any) error {
	i.hub.set(i.object, notFound(i.key))
	return nil
}

// Replace implements cache.ReflectorStore.
func (i intake) Replace(list []any, _ string) error {
	defer i.read()
	if len(list) == 0 {
		return i.Delete(nil)
	}
	return i.Update(list[0])
}

// Resync implements cache.ReflectorStore.
func (i intake) Resync() error { return nil }
