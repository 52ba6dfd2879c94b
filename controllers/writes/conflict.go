// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryAfter is when a write that met another one is tried again.
const retryAfter = 500 * time.Millisecond

// Locked is a minimal patch that fails when the object has changed since base.
func Locked(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// Result turns the outcome of a reconciliation into what the queue does: a write
// that met another one is tried again without a word, and no later than was asked for.
func Result(ctx context.Context, requeue time.Duration, err error) (ctrl.Result, error) {
	if err == nil {
		return ctrl.Result{RequeueAfter: requeue}, nil
	}
	if OnlyConflicts(err) {
		logr.FromContextOrDiscard(ctx).V(1).Info("Conflict with another write; retrying", "reason", err.Error())
		if requeue <= 0 || requeue > retryAfter {
			requeue = retryAfter
		}
		return ctrl.Result{RequeueAfter: requeue}, nil
	}
	return ctrl.Result{}, err
}

// OnlyConflicts reports whether every error in err is one of a stale cache.
func OnlyConflicts(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if !OnlyConflicts(e) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
