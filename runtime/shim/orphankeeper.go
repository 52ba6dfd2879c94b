// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// reasonOrphansHeld is the reason of the event about the Node.
const reasonOrphansHeld = "OrphansHeld"

// orphanKeeper finds workloads that the API server does not have any more, and
// ends them when that is beyond doubt.
type orphanKeeper struct {
	runtime criClient
	pool    *podworker.Pool
	// cached lists the NodeWorkloads, synced says that the list is complete.
	cached client.Reader
	synced func() bool
	api    client.Client
	// cluster asks for the identity of the cluster that the list is from.
	cluster *clusterIdentity
	events  *events
	// lease is the shim's own, where a person confirms.
	lease *lease
	node  string
	// progress takes note of each step.
	progress *progress

	// What follows belongs to the caller of consider.
	token    string
	reported bool
	// unconfirmed: the absence of an orphan was not confirmed at the last look.
	unconfirmed bool
}

// consider looks for orphans among what the runtime was seen to have. The order
// matters: first the runtime's list, then the workers, then the API's list, so
// that nothing that has just begun looks like an orphan.
func (k *orphanKeeper) consider(ctx context.Context, pods []cri.Pod, clusterID string) {
	repeated := k.unconfirmed
	k.unconfirmed = false
	if !k.synced() {
		return
	}
	known := k.pool.Known()
	items, err := k.list(ctx)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list NodeWorkloads; retrying")
		return
	}
	k.adopt(items) //nolint:contextcheck // a worker outlives this call
	listed := uidsOf(items)
	found := k.candidates(ctx, pods, known, listed)
	decision, err := k.decide(ctx, orphanInput{ClusterID: clusterID, Listed: listed, Candidates: found.candidates})
	if err != nil {
		// The list is believed only as far as it is this cluster's.
		return
	}
	k.report(ctx, decision)
	if err := k.end(ctx, decision, found); err != nil && !repeated && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Failed to confirm that NodeWorkloads are absent; keeping their containers", "reason", err.Error())
	}
}

// decide decides by the identity of the cluster that answers now, and by a person's
// confirmation where one is needed.
func (k *orphanKeeper) decide(ctx context.Context, in orphanInput) (orphanDecision, error) {
	decision := decideOrphans(in)
	if decision.empty() {
		return decision, nil
	}
	var err error
	if in.ClusterID, err = k.cluster.ask(ctx); err != nil {
		return orphanDecision{}, err
	}
	if decision = decideOrphans(in); len(decision.Held) > 0 {
		in.Confirmed = k.lease.confirmation(ctx)
		decision = decideOrphans(in)
	}
	return decision, nil
}

// end ends the orphans whose absence the API server itself confirms, however few
// they are: the list may come from a watch that is behind. One that is being ended
// already continues without its object. What is not confirmed is asked again soon.
// All are asked about at the same time, so that one without an answer takes none of
// the time of the others.
func (k *orphanKeeper) end(ctx context.Context, d orphanDecision, found found) (err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	uids := slices.Concat(d.Ending, d.Kill)
	answers := make(chan orphanAnswer, len(uids))
	for _, uid := range uids {
		go func() {
			answer := orphanAnswer{uid: uid}
			answer.err = panics.Contain(logr.FromContextOrDiscard(ctx), "confirmation of an orphan", func() (err error) {
				answer.absent, err = instanceAbsent(ctx, k.api, found.ids[uid])
				return err
			})
			answers <- answer
		}()
	}
	for range uids {
		answer := <-answers
		if !answer.absent {
			k.unconfirmed, err = true, cmp.Or(err, answer.err)
			continue
		}
		id := found.ids[answer.uid]
		if slices.Contains(d.Kill, id.UID) {
			logr.FromContextOrDiscard(ctx).Info("NodeWorkload is absent from the API; terminating its containers", "workload", id.Namespace+"/"+id.Name, "uid", id.UID)
		}
		k.pool.Abandon(id, found.recorded[id.UID]) //nolint:contextcheck // a worker outlives this call
	}
	return err
}

// orphanAnswer is the answer of the API server about one orphan. absent: it does not have it.
type orphanAnswer struct {
	uid    types.UID
	absent bool
	err    error
}

// holding says that orphans wait for a person, or for the API server's answer.
func (k *orphanKeeper) holding() bool { return k.token != "" || k.unconfirmed }

// found is what was found on the node.
type found struct {
	candidates []candidate
	ids        map[types.UID]podworker.Identity
	recorded   map[types.UID]*corev1.Pod
}

// candidates are all workloads of which something is on the node: those with a
// worker, and those that only the runtime knows.
func (k *orphanKeeper) candidates(ctx context.Context, pods []cri.Pod, known []podworker.Known, listed map[types.UID]bool) found {
	f := found{ids: map[types.UID]podworker.Identity{}, recorded: map[types.UID]*corev1.Pod{}}
	workers := indexKnown(known)
	for _, w := range known {
		if !w.Gone && !v1alpha1.IsStatic(w.UID) {
			f.ids[w.UID] = w.Identity
			f.candidates = append(f.candidates, candidate{UID: w.UID, ClusterID: w.ClusterID, Ending: w.Deleting})
		}
	}
	for _, p := range pods {
		if _, ok := workers[p.UID]; ok || !p.Ours || listed[p.UID] || v1alpha1.IsStatic(p.UID) {
			continue
		}
		pod, err := k.runtime.RecordedPod(ctx, p.UID)
		k.progress.step()
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to restore an orphan from its labels; retrying", "uid", p.UID)
			continue
		}
		if pod == nil {
			continue // removed since the list
		}
		f.ids[p.UID] = podworker.Identity{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
		f.recorded[p.UID] = pod
		f.candidates = append(f.candidates, candidate{UID: p.UID, ClusterID: p.ClusterID})
	}
	return f
}

// list returns the node's NodeWorkloads, which are not to be changed.
func (k *orphanKeeper) list(ctx context.Context) ([]v1alpha1.NodeWorkload, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list := &v1alpha1.NodeWorkloadList{}
	if err := k.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeWorkloads: %w", err)
	}
	return list.Items, nil
}

// policyProblem asks about one of the node's NodeWorkloads whether the policies are
// enforced; with none the last answer holds.
func (k *orphanKeeper) policyProblem(ctx context.Context, policy *policyProbe) string {
	if k.synced() {
		if items, err := k.list(ctx); err == nil {
			for i := range items {
				if items[i].Spec.NodeName == k.node && items[i].DeletionTimestamp.IsZero() {
					return policy.ask(ctx, &items[i])
				}
			}
		}
	}
	return policy.known()
}

func uidsOf(items []v1alpha1.NodeWorkload) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(items))
	for i := range items {
		uids[items[i].UID] = true
	}
	return uids
}

// adopt makes a worker for each object that has none: one that was away for a
// while, so that its containers were ended, and is there again.
func (k *orphanKeeper) adopt(items []v1alpha1.NodeWorkload) {
	for i := range items {
		if items[i].Spec.NodeName == k.node && !mirror.Is(&items[i]) {
			k.pool.Adopt(template.Of(&items[i]))
		}
	}
}

// report makes an event about orphans that are held and writes it into the shim's
// lease, and takes it away there when there are none left.
func (k *orphanKeeper) report(ctx context.Context, d orphanDecision) {
	if k.reported && d.Token == k.token {
		return
	}
	log := logr.FromContextOrDiscard(ctx)
	if d.Token != "" && d.Token != k.token {
		log.Info("Orphans are kept until a person confirms", "reason", d.Message, "token", d.Token)
		k.events.warnNode(reasonOrphansHeld, d.Message)
	}
	first := k.token == ""
	k.token = d.Token
	if d.Token == "" && first && k.reported {
		return
	}
	if err := k.lease.reportHeld(ctx, d.Message); err != nil {
		if !errors.Is(err, context.Canceled) {
			log.Info("Failed to write held orphans into the lease; retrying", "reason", err.Error())
		}
		k.reported = false
		return
	}
	k.reported = true
}
