// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// gather reads what is decided from. A ManagedWorkload that does not exist runs nowhere.
func (r *Reconciler) gather(ctx context.Context, kr *v1alpha1.KillRequest) (*facts, error) {
	f := &facts{kr: kr, nodes: map[string]map[string]string{}, responds: map[string]bool{}, unavailable: map[string]bool{}, now: time.Now()}
	mw := &v1alpha1.ManagedWorkload{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: kr.Namespace, Name: kr.Spec.WorkloadName}, mw)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get ManagedWorkload: %w", err)
	}
	if f.exists = err == nil; f.exists {
		f.shares = r.fleet.Shares.OfWorkload(mw.UID)
	}
	nodes := r.fleet.Nodes.All()
	for _, node := range nodes {
		f.nodes[node.Name] = node.Labels
	}
	byNode := map[string]*fleet.Share{}
	for _, share := range f.shares {
		byNode[share.Node] = share
		f.responds[share.Node] = r.fleet.Shims.Of(share.Node, f.now).Believed(share).Responding()
	}
	if kr.Spec.Order == v1alpha1.RequestRollOut && f.exists {
		r.budget(f, mw, nodes, byNode)
	}
	return f, nil
}

// budget finds what the roll-out of the workload has left.
func (r *Reconciler) budget(f *facts, mw *v1alpha1.ManagedWorkload, nodes []*corev1.Node, byNode map[string]*fleet.Share) {
	placer := placement.New(&mw.Spec.Template)
	t := mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	in := &rollout.Input{Update: template.Hash(t), Now: f.now}
	desired := 0
	for _, node := range nodes {
		place, share := placer.Place(node), byNode[node.Name]
		if place.ShouldRun {
			desired++
		}
		if place.ShouldRun || share != nil {
			in.Nodes = append(in.Nodes, r.nodeFacts(node.Name, share, place.ShouldRun, f.now))
		}
	}
	in.Strategy = rollout.StrategyOf(&mw.Spec, desired)
	f.room = rollout.Room(in)
	for i := range in.Nodes {
		n := &in.Nodes[i]
		f.unavailable[n.Name] = !n.Available(&in.Strategy, f.now)
	}
}

// nodeFacts is what a roll-out goes by on a node.
func (r *Reconciler) nodeFacts(node string, share *fleet.Share, desired bool, now time.Time) rollout.Node {
	shim := r.fleet.Shims.Of(node, now).Believed(share)
	n := rollout.Node{
		Name: node, Desired: desired, Responds: shim.Responding(),
		NoShim: shim.Reason == v1alpha1.ReasonShimNotFound && (share == nil || !share.Observed()),
	}
	if share != nil {
		n.Present, n.Ending, n.Observed = true, share.Deleting(), share.Observed()
		n.Revision, n.Reported = share.Revision(), share.ObservedGeneration == share.Generation
		n.RunsSpec = share.TemplateHash == share.SpecHash
		n.Ready, n.ReadySince, n.Killing = share.Ready() || share.Phase == corev1.PodSucceeded, share.ReadySince, share.Killing()
	}
	return n
}

// over is the status of a request that cannot be carried out.
func (f *facts) over(message string) v1alpha1.KillRequestStatus {
	now := metav1.NewTime(f.now).Rfc3339Copy()
	return v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestFailed, Message: message, StartTime: &now, CompletionTime: &now}
}

// wake is when to look again although no node that has the request changes: at the deadline,
// and while nodes wait for their turn.
func (f *facts) wake(targets []target, begun int) time.Duration {
	waiting := -begun
	for i := range targets {
		if t := &targets[i]; t.open() && !t.entered {
			waiting++
		}
	}
	after := time.Duration(0)
	if at := deadline(f.kr); at != nil && at.After(f.now) {
		after = at.Sub(f.now) + time.Millisecond
	}
	if waiting > 0 && (after == 0 || after > turnRetry) {
		after = turnRetry
	}
	return after
}
