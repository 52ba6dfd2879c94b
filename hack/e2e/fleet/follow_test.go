// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// shares are the NodeWorkloads of a workload by node.
type shares map[string]*v1alpha1.NodeWorkload

// follower sees every change of a workload's NodeWorkloads, in order.
type follower struct {
	t      *testing.T
	events <-chan watch.Event
	shares shares
	// counts says whether a node counts as available.
	counts func(*v1alpha1.NodeWorkload) bool
	// unavailable is the largest number of nodes that were so at one moment.
	unavailable int
	// most is the largest number of nodes that had an image at one moment.
	most map[string]int
	// changed are the nodes in the order in which they got an image.
	changed map[string][]string
}

// follow begins with the NodeWorkloads as they are.
func (w *workload) follow() *follower { return w.followBy(available) }

// followBy is follow, and takes those nodes for available of which counts says so.
func (w *workload) followBy(counts func(*v1alpha1.NodeWorkload) bool) *follower {
	w.t.Helper()
	watching, err := harness.Watch(w.t.Context(), env.Kube, &v1alpha1.NodeWorkloadList{}, client.InNamespace(w.Namespace))
	if err != nil {
		w.t.Fatalf("watch NodeWorkloads: %v", err)
	}
	w.t.Cleanup(watching.Stop)
	f := &follower{t: w.t, events: watching.ResultChan(), shares: shares{}, counts: counts, most: map[string]int{}, changed: map[string][]string{}}
	f.until("all nodes have one", func(s shares) bool { return len(s) == nodes })
	f.unavailable = 0 // before this the list was not complete
	return f
}

// until reads events until the NodeWorkloads are as wanted.
func (f *follower) until(what string, done func(shares) bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), harness.Timeout)
	defer cancel()
	for !done(f.shares) {
		select {
		case <-ctx.Done():
			f.t.Fatalf("waiting until %s: %v\n%s", what, ctx.Err(), f.describe())
		case event, open := <-f.events:
			nw, is := event.Object.(*v1alpha1.NodeWorkload)
			if !open || !is {
				f.t.Fatalf("the watch ended: %v", event.Object)
			}
			f.take(event.Type, nw)
		}
	}
}

func (f *follower) take(kind watch.EventType, nw *v1alpha1.NodeWorkload) {
	if before := f.shares[nw.Spec.NodeName]; before == nil || image(before) != image(nw) {
		f.changed[image(nw)] = append(f.changed[image(nw)], nw.Spec.NodeName)
	}
	if kind == watch.Deleted {
		delete(f.shares, nw.Spec.NodeName)
	} else {
		f.shares[nw.Spec.NodeName] = nw
	}
	f.unavailable = max(f.unavailable, nodes-len(f.shares.where(f.counts)))
	f.most[image(nw)] = max(f.most[image(nw)], len(f.shares.have(image(nw))))
}

func (f *follower) describe() (text string) {
	for node, nw := range f.shares {
		text += node + ": " + image(nw) + " " + nw.Status.Ready + " " + nw.Status.Summary + "\n"
	}
	return text
}

// available is what takes up none of the budget: a node that is ready and runs what its
// spec says.
func available(nw *v1alpha1.NodeWorkload) bool {
	return nw.Status.ObservedGeneration == nw.Generation && nw.Status.TemplateHash == template.Hash(&nw.Spec.Template) &&
		meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady)
}

// where are the nodes whose NodeWorkload is as asked, sorted.
func (s shares) where(is func(*v1alpha1.NodeWorkload) bool) (found []string) {
	for node, nw := range s {
		if is(nw) {
			found = append(found, node)
		}
	}
	slices.Sort(found)
	return found
}

// have are the nodes that are to run an image, whether or not they do.
func (s shares) have(ref string) []string {
	return s.where(func(nw *v1alpha1.NodeWorkload) bool { return image(nw) == ref })
}

// run are the nodes that are available with an image.
func (s shares) run(ref string) []string {
	return s.where(func(nw *v1alpha1.NodeWorkload) bool { return image(nw) == ref && available(nw) })
}
