// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// end deletes a NodeWorkload with a grace period, in seconds; nil means its
// template's own. The grace period may still shrink while it ends.
func (r *Reconciler) end(ctx context.Context, s *scope, share *fleet.Share, grace *int64, by string) error {
	requested, err := fleet.RequestEnd(ctx, r.client, share, grace, by)
	if err != nil {
		return err
	}
	s.renew(requested)
	if requested.Deleting() {
		return nil
	}
	err = r.client.Delete(ctx, requested.Object(), requested.AsSeen())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		return err // the index is behind
	}
	if err != nil {
		r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventFailedDelete, "Error deleting: %v", err)
		return fmt.Errorf("delete NodeWorkload %q: %w", share.Name, err)
	}
	r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventSuccessfulDelete, "Deleted NodeWorkload: %s", share.Name)
	logr.FromContextOrDiscard(ctx).Info("Deleted NodeWorkload", "nodeWorkload", share.Name, "node", share.Node, "requestedBy", by)
	s.renew(requested.Ended(s.now))
	return nil
}
