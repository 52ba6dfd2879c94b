// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// newNodeWorkload is that of a workload on a node.
func (s *scope) newNodeWorkload(c *change) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.mw.Namespace,
			Name:            placement.NodeWorkloadName(s.mw.Name, c.node),
			Labels:          s.wanted.labels(c.node, c.to.revision),
			Finalizers:      []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(s.mw)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName:       c.node,
			Template:       *c.to.template().DeepCopy(),
			RestartBackoff: s.mw.Spec.RestartBackoff.DeepCopy(),
		},
		// The API server's default, so that 0 is not read as an observed one.
		Status: v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1},
	}
}

// createAll creates the NodeWorkloads of nodes, in batches that double: what the API server
// refuses once it mostly refuses for all, and is not asked 5,000 times. It ends with the
// first batch in which one fails, and says so once. The roll-out puts nodes for which it
// failed last the next time, so that they hold up no other.
func (r *Reconciler) createAll(ctx context.Context, s *scope, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	created := 0
	var errs failures
	for size := 1; created < len(changes) && errs.serious() == 0; size *= 2 {
		batch := changes[created:min(created+size, len(changes))]
		for _, err := range r.createBatch(ctx, s, batch) {
			errs.add(err)
		}
		created += len(batch)
	}
	if n := errs.serious(); n > 0 {
		r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventFailedCreate, "Error creating %d of %d NodeWorkloads: %v", n, len(changes), errs.first)
	}
	return errs.err()
}

// createBatch creates the NodeWorkloads of nodes at the same time.
func (r *Reconciler) createBatch(ctx context.Context, s *scope, changes []change) []error {
	made := make([]*v1alpha1.NodeWorkload, len(changes))
	errs := make([]error, len(changes))
	var wg sync.WaitGroup
	for i := range changes {
		made[i] = s.newNodeWorkload(&changes[i])
		wg.Go(func() {
			errs[i] = contain.Call(logr.FromContextOrDiscard(ctx), func() error { return r.client.Create(ctx, made[i]) })
		})
	}
	wg.Wait()
	for i, nw := range made {
		s.room.Wrote(client.ObjectKeyFromObject(nw), nw.ResourceVersion, errs[i], time.Now())
		switch {
		case errs[i] == nil:
			share := fleet.ShareOf(nw, nil)
			s.note(share.Node, nil)
			s.shares[share.Node] = share
			s.renew(share)
			r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventSuccessfulCreate, "Created NodeWorkload: %s", nw.Name)
			logr.FromContextOrDiscard(ctx).Info("Created NodeWorkload", "nodeWorkload", nw.Name, "node", share.Node)
		case !apierrors.IsAlreadyExists(errs[i]): // there the index is behind
			s.note(changes[i].node, errs[i])
			errs[i] = fmt.Errorf("create the NodeWorkload of node %q: %w", changes[i].node, errs[i])
		}
	}
	return errs
}
