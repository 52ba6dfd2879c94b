// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// reasonPreviousInstance: another instance of the same name is still there.
const reasonPreviousInstance = "PreviousInstanceTerminating"

// predecessor is the instance of the same name that this one waits for, "" if none.
func (w *worker) predecessor(ctx context.Context) types.UID {
	uid, ask := w.pool.mayStart(w, "", false)
	if !ask {
		return uid
	}
	live := types.UID("")
	switch nw, err := w.cfg.Publisher.Live(ctx, w.id); {
	case err == nil:
		live = nw.UID
	case !errors.Is(err, ErrGone):
		w.log.Info("Failed to read which instance the API server has; the older one continues", "reason", err.Error())
	}
	uid, _ = w.pool.mayStart(w, live, true)
	return uid
}

// hold reports that the workload waits until another instance of the same name is gone.
// What it has on the runtime is kept as it is.
func (w *worker) hold(ctx context.Context, d desired, uid types.UID) (time.Duration, error) {
	r := report{pod: corev1.PodStatus{
		Phase:   corev1.PodPending,
		Reason:  reasonPreviousInstance,
		Message: fmt.Sprintf("instance %s of the same name is still there", uid),
	}}
	observed, err := w.cfg.Runtime.PodStatus(ctx, w.id.UID)
	if err == nil && d.pod != nil && len(observed.Containers) > 0 {
		r = w.look(ctx, d, observed, false)
	}
	w.report(d, r, w.currentUsable())
	return errorDelay, nil
}

// confirm asks the API server whether an object is there again whose end is over here:
// its storage may have been restored from a backup. If it is not, or is released, the
// worker ends and leaves everything as it is.
func (w *worker) confirm(ctx context.Context) (there bool, err error) {
	nw, err := w.cfg.Publisher.Live(ctx, w.id)
	switch {
	case errors.Is(err, ErrGone), err == nil && nw.UID != w.id.UID,
		err == nil && nw.DeletionTimestamp != nil && !slices.Contains(nw.Finalizers, v1alpha1.Finalizer):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the object of a workload that has ended: %w", err)
	}
	w.log.Info("Object is in the API again although its workload was removed; running it again")
	w.pool.believe(w.id.UID)
	w.update(nw)
	return true, nil
}
