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

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

const (
	// maxCreates is how many NodeWorkloads one reconciliation creates, as many as the
	// DaemonSet controller creates Pods. (kubernetes pkg/controller/daemon, BurstReplicas)
	maxCreates = 250
	// nextCreates is when a reconciliation that created so many is followed by the next.
	nextCreates = 100 * time.Millisecond
)

// newNodeWorkload is that of a workload on a node.
func (s *scope) newNodeWorkload(node string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.mw.Namespace,
			Name:            placement.NodeWorkloadName(s.mw.Name, node),
			Labels:          s.wanted.labels(node),
			Finalizers:      []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{writes.OwnerReference(s.mw)},
		},
		Spec: v1alpha1.NodeWorkloadSpec{
			NodeName:       node,
			Template:       *s.admitted.DeepCopy(),
			RestartBackoff: s.mw.Spec.RestartBackoff.DeepCopy(),
		},
		// The API server's default, so that 0 is not read as an observed one.
		Status: v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1},
	}
}

// createAll creates the NodeWorkloads of nodes, in batches that double: what the API server
// refuses once it mostly refuses for all, and is not asked 5,000 times. It ends with the
// first batch in which one fails, and says so once. Nodes for which it failed come last
// the next time, so that they hold up no other.
func (r *Reconciler) createAll(ctx context.Context, s *scope, nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	if wanted, err := r.confirm(ctx, s); err != nil || !wanted {
		return err
	}
	due := refusedLast(nodes, s.memory.refused)[:min(len(nodes), maxCreates)]
	created := 0
	var errs failures
	for size := 1; created < len(due) && errs.serious() == 0; size *= 2 {
		batch := due[created:min(created+size, len(due))]
		for _, err := range r.createBatch(ctx, s, batch) {
			errs.add(err)
		}
		created += len(batch)
	}
	s.left += len(nodes) - created
	if n := errs.serious(); n > 0 {
		r.recorder.Eventf(s.mw, corev1.EventTypeWarning, eventFailedCreate, "Error creating %d of %d NodeWorkloads: %v", n, len(nodes), errs.first)
	} else if s.left > 0 {
		s.wakeAfter(nextCreates)
	}
	return errs.err()
}

// refusedLast are nodes in their order, those of refused behind the others.
func refusedLast(nodes []string, refused map[string]bool) []string {
	if len(refused) == 0 {
		return nodes
	}
	var first, last []string
	for _, node := range nodes {
		if refused[node] {
			last = append(last, node)
		} else {
			first = append(first, node)
		}
	}
	return append(first, last...)
}

// createBatch creates the NodeWorkloads of nodes at the same time.
func (r *Reconciler) createBatch(ctx context.Context, s *scope, nodes []string) []error {
	made := make([]*v1alpha1.NodeWorkload, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		made[i] = s.newNodeWorkload(node)
		wg.Go(func() {
			errs[i] = contain.Call(logr.FromContextOrDiscard(ctx), func() error { return r.client.Create(ctx, made[i]) })
		})
	}
	wg.Wait()
	for i, nw := range made {
		switch {
		case errs[i] == nil:
			share := fleet.ShareOf(nw, nil)
			delete(s.memory.refused, share.Node)
			s.shares[share.Node] = share
			s.renew(share)
			r.recorder.Eventf(s.mw, corev1.EventTypeNormal, eventSuccessfulCreate, "Created NodeWorkload: %s", nw.Name)
			logr.FromContextOrDiscard(ctx).Info("Created NodeWorkload", "nodeWorkload", nw.Name, "node", share.Node)
		case !apierrors.IsAlreadyExists(errs[i]): // there the index is behind
			s.memory.refused[nodes[i]] = true
			errs[i] = fmt.Errorf("create NodeWorkload %q: %w", nw.Name, errs[i])
		}
	}
	return errs
}
