// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// LongestPause is the longest time between two tries: a kubelet tries to renew its Lease as often.
const LongestPause = 10 * time.Second

// Backoff is how long to wait from try to try.
func Backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: LongestPause / 2}
}

// New makes an informer (cache.Options.NewInformer).
func New(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(Patient(lw), example, resync, indexers)
}

// Patient returns a ListerWatcher that tries again itself where the API server cannot be reached, is not ready or refuses for
// now, as it does while it starts and has not read all roles. Errors that a reflector has an answer to reach it.
func Patient(lw cache.ListerWatcher) cache.ListerWatcher {
	from := cache.ToListerWatcherWithContext(lw)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return again(ctx, func() (runtime.Object, error) { return from.ListWithContext(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return again(ctx, func() (watch.Interface, error) { return from.WatchWithContext(ctx, o) })
		},
	}
}

// again calls f until it succeeds, fails for good or the context is done.
func again[T any](ctx context.Context, f func() (T, error)) (T, error) {
	backoff := Backoff()
	for {
		result, err := f()
		if err == nil || !passes(err) {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-time.After(backoff.Step()):
		}
	}
}

// passes reports whether an error may pass by itself. What the others say is about the request: its resourceVersion is too
// old, or the storage was restored and never had it, or the server cannot stream what there is.
// (client-go tools/cache/reflector.go:isExpiredError, isTooLargeResourceVersionError, watchList)
func passes(err error) bool {
	return !apierrors.IsResourceExpired(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
