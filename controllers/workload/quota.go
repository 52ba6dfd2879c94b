// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// quotaRetry is when what a quota has no room for is tried again, whatever happens: what
// failed elsewhere gives room back without a word.
const quotaRetry = 30 * time.Second

// fit leaves out the changes for which the quotas of the namespace have no room, and has the
// room of the others kept for them until room is closed. What runs stays. Where quotas cannot
// be read, nothing that grows is changed.
func (r *Reconciler) fit(ctx context.Context, s *scope, changes []change, may map[string]bool) ([]change, error) {
	growing := s.growing(changes, may)
	name := client.ObjectKeyFromObject(s.mw)
	if len(growing) == 0 {
		r.awaitRoom(s, name)
		return changes, nil
	}
	quotas, err := r.admission.Quotas(ctx, s.mw.Namespace)
	if err != nil {
		return slices.DeleteFunc(changes, func(c change) bool { return growing[c.node] != nil }), err
	}
	quotas = slices.DeleteFunc(quotas, func(q *corev1.ResourceQuota) bool { return !quota.LimitsPods(q) })
	if len(quotas) == 0 {
		clear(s.memory.noRoom)
		r.awaitRoom(s, name)
		return changes, nil
	}
	r.quotas.Wait(name, true) // before the answer: what makes room after it must wake this workload
	var asks []quota.Ask
	for i := range changes {
		if ask := growing[changes[i].node]; ask != nil {
			asks = append(asks, *ask)
		}
	}
	s.room = r.quotas.Ask(s.mw.Namespace, quotas, asks, s.now)
	fitting := make([]change, 0, len(changes))
	for _, c := range changes {
		delete(s.memory.noRoom, c.node)
		if !s.refuse(&c, growing[c.node]) {
			fitting = append(fitting, c)
		}
	}
	r.awaitRoom(s, name)
	return fitting, nil
}

// awaitRoom has a workload woken if it waits for room.
func (r *Reconciler) awaitRoom(s *scope, name types.NamespacedName) {
	waits := s.overQuota != (quota.Refusal{}) || len(s.memory.noRoom) > 0
	r.quotas.Wait(name, waits)
	if waits {
		s.wakeAfter(quotaRetry)
	}
}

// refuse lets a node wait for a quota if there is no room for what it asked for.
func (s *scope) refuse(c *change, ask *quota.Ask) bool {
	if ask == nil {
		return false
	}
	refusal, no := s.room.Refused[ask.Key]
	if !no {
		return false
	}
	if s.overQuota == (quota.Refusal{}) {
		s.overQuota = refusal
	}
	s.rolling.batch.Waiting[s.rolling.at[c.node]] = rollout.WaitQuota
	if c.share == nil {
		s.memory.noRoom[c.node] = true
	}
	s.note(c.node, nil) // nothing is tried
	return true
}

// growing are the changes that quotas are asked about, by node: those that make a NodeWorkload
// or give it another template. What a node runs already continues, whatever else has used its
// room since: it would end for a quota otherwise.
func (s *scope) growing(changes []change, may map[string]bool) map[string]*quota.Ask {
	asks := make(map[string]*quota.Ask, len(changes))
	for i := range changes {
		c := &changes[i]
		key := types.NamespacedName{Namespace: s.mw.Namespace, Name: placement.NodeWorkloadName(s.mw.Name, c.node)}
		switch {
		case c.spreads() && !may[c.to.revision]:
			continue
		case c.share == nil:
		case terminal(c.share), c.share.SpecHash == c.to.hash, c.share.TemplateHash == c.to.hash:
			continue
		default:
			key = c.share.Key()
		}
		asks[c.node] = &quota.Ask{Key: key, Usage: c.to.uses()}
	}
	return asks
}

// announceQuota says once for what a quota has no room, until it asks for something else.
func (r *Reconciler) announceQuota(mw *v1alpha1.ManagedWorkload, s *scope) {
	said := s.overQuota.Quota + " " + s.overQuota.Requested
	if s.overQuota == (quota.Refusal{}) {
		said = ""
	} else if said != s.memory.overQuota {
		waiting := s.rolling.waitingFor(rollout.WaitQuota)
		r.warn(mw, eventQuotaExceeded, nodes(len(waiting))+" not served ("+names(waiting)+"): "+s.overQuota.String())
	}
	s.memory.overQuota = said
}

// waitingForQuota are the ManagedWorkloads of a namespace that wait for room in a quota.
func (r *Reconciler) waitingForQuota(namespace string) []reconcile.Request {
	waiting := r.quotas.Waiting(namespace)
	requests := make([]reconcile.Request, 0, len(waiting))
	for _, name := range waiting {
		requests = append(requests, request(namespace, name))
	}
	return requests
}

// watchQuotas wakes the ManagedWorkloads that wait for room in a quota.
func (r *Reconciler) watchQuotas() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, q client.Object) []reconcile.Request {
		return r.waitingForQuota(q.GetNamespace())
	})
}

// quotaMadeRoom lets through what may make room in a quota.
func quotaMadeRoom() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasQuota := e.ObjectOld.(*corev1.ResourceQuota)
			now, isQuota := e.ObjectNew.(*corev1.ResourceQuota)
			return wasQuota && isQuota && quota.MadeRoom(old, now)
		},
	}
}
