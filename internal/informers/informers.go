// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// LongestPause is the longest time between two tries: a kubelet tries to renew its Lease as often.
	LongestPause = 10 * time.Second
	// streamTries is how often a watch that begins with all objects is tried: a server that never answers one
	// may have a list.
	streamTries = 5
)

// Backoff is how long to wait from try to try.
func Backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: LongestPause / 2}
}

// New makes an informer (cache.Options.NewInformer).
func New(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(Patient(lw), example, resync, indexers)
}

// Patient returns a ListerWatcher that retries lists and watches that fail for a passing reason: the API server cannot be
// reached, is not ready, or has not read all roles and kinds since it started. It logs each reason once. It returns all
// other errors, for the reflector to handle.
func Patient(lw cache.ListerWatcher) cache.ListerWatcher {
	from := cache.ToListerWatcherWithContext(lw)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return again(ctx, 0, func() (runtime.Object, error) { return from.ListWithContext(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tries := 0
			if o.SendInitialEvents != nil {
				tries = streamTries
			}
			return again(ctx, tries, func() (watch.Interface, error) { return from.WatchWithContext(ctx, o) })
		},
	}
}

// again calls f until it succeeds, fails for good, has been refused most times (0 is no limit) or the context is done.
func again[T any](ctx context.Context, most int, f func() (T, error)) (T, error) {
	backoff, refusals, said := Backoff(), 0, metav1.StatusReason("none")
	for {
		result, err := f()
		if err == nil || !passes(err) {
			return result, err
		}
		if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
			refusals++
		}
		if most > 0 && refusals >= most || ctx.Err() != nil {
			return result, err
		}
		if reason := apierrors.ReasonForError(err); reason != said {
			logr.FromContextOrDiscard(ctx).Info("Failed to follow objects in the API server; retrying", "reason", err.Error())
			said = reason
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-time.After(backoff.Step()):
		}
	}
}

// passes reports whether an error may pass by itself. A reflector handles the others: it lists where a resourceVersion is too
// old or was never reached, or where it cannot stream, and asks an overloaded server less often.
// (client-go tools/cache/reflector.go:isExpiredError, isTooLargeResourceVersionError, isWatchErrorRetriable, watchList)
func passes(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return true // there was no answer
	}
	return slices.Contains([]int32{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}, status.ErrStatus.Code) && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
