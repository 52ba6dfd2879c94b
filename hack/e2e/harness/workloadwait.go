// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Get reads the ManagedWorkload.
func (w *Workload) Get() *v1alpha1.ManagedWorkload {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.env.Kube.Get(w.t.Context(), w.key(), mw); err != nil {
		w.t.Fatalf("get ManagedWorkload: %v", err)
	}
	return mw
}

// onNode selects the NodeWorkload on the node by its labels.
func (w *Workload) onNode() []client.ListOption {
	return []client.ListOption{client.InNamespace(w.Namespace), client.MatchingLabels{
		v1alpha1.LabelWorkload: placement.LabelValue(w.Name),
		v1alpha1.LabelNode:     placement.LabelValue(w.node.NodeName()),
	}}
}

// Node reads the NodeWorkload.
func (w *Workload) Node() *v1alpha1.NodeWorkload {
	w.t.Helper()
	nw, err := w.FindNode(w.t.Context())
	if err != nil {
		w.t.Fatalf("get NodeWorkload: %v", err)
	}
	return nw
}

// FindNode returns the NodeWorkload, or an error that says that there is none.
func (w *Workload) FindNode(ctx context.Context) (*v1alpha1.NodeWorkload, error) {
	list := &v1alpha1.NodeWorkloadList{}
	if err := w.env.Kube.List(ctx, list, w.onNode()...); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodeworkloads").GroupResource(), w.Name+" on "+w.node.NodeName())
	}
	return &list.Items[0], nil
}

// Await waits until the NodeWorkload is as wanted.
func (w *Workload) Await(what string, done func(*v1alpha1.NodeWorkload) bool) *v1alpha1.NodeWorkload {
	w.t.Helper()
	nw := &v1alpha1.NodeWorkload{}
	read := func(ctx context.Context) error {
		found, err := w.FindNode(ctx)
		if err == nil {
			found.DeepCopyInto(nw)
		}
		return err
	}
	await(w.t, w.env, &v1alpha1.NodeWorkloadList{}, w.onNode(), nw, read, what, func(exists bool) bool { return exists && done(nw) })
	return nw
}

// AwaitNodeWorkload waits until a NodeWorkload that no ManagedWorkload has is as wanted.
func (e *Env) AwaitNodeWorkload(t *testing.T, key client.ObjectKey, what string, done func(nw *v1alpha1.NodeWorkload, exists bool) bool) *v1alpha1.NodeWorkload {
	t.Helper()
	nw := &v1alpha1.NodeWorkload{}
	one := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	read := func(ctx context.Context) error { return e.Kube.Get(ctx, key, nw) }
	await(t, e, &v1alpha1.NodeWorkloadList{}, one, nw, read, what, func(exists bool) bool { return done(nw, exists) })
	return nw
}

// AwaitObject waits until the ManagedWorkload is as wanted.
func (w *Workload) AwaitObject(what string, done func(*v1alpha1.ManagedWorkload) bool) *v1alpha1.ManagedWorkload {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.awaitObject(mw, what, func(exists bool) bool { return exists && done(mw) })
	return mw
}

// AwaitReady waits until all nodes run the current template and are ready, and their programs serve.
func (w *Workload) AwaitReady() *v1alpha1.NodeWorkload {
	w.t.Helper()
	w.AwaitObject("it is ready", func(mw *v1alpha1.ManagedWorkload) bool {
		ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
		return mw.Status.ObservedGeneration == mw.Generation && ready != nil && ready.Status == metav1.ConditionTrue && int(mw.Status.ReadyNodes) == w.Nodes
	})
	w.awaitServing()
	return w.Node()
}

// AwaitKill waits for a kill that has ended.
func (w *Workload) AwaitKill(what string, match func(v1alpha1.KillRecord) bool) v1alpha1.KillRecord {
	w.t.Helper()
	var found v1alpha1.KillRecord
	w.Await("there is a kill record: "+what, func(nw *v1alpha1.NodeWorkload) bool {
		for _, kill := range nw.Status.Kills {
			if kill.Phase == v1alpha1.KillPhaseDone && match(kill) {
				found = kill
				return true
			}
		}
		return false
	})
	return found
}

// AwaitTrigger waits for a kill of a container by a trigger that has ended.
func (w *Workload) AwaitTrigger(container string, trigger v1alpha1.KillTrigger) v1alpha1.KillRecord {
	w.t.Helper()
	return w.AwaitKill(fmt.Sprintf("%s of %s", trigger, container), func(k v1alpha1.KillRecord) bool {
		return k.Container == container && k.Trigger == trigger
	})
}

// AwaitPhase waits until a kill of the container is under way in a phase.
func (w *Workload) AwaitPhase(container string, phase v1alpha1.KillPhase) v1alpha1.KillRecord {
	w.t.Helper()
	var found v1alpha1.KillRecord
	w.Await(fmt.Sprintf("the kill of %s is in phase %s", container, phase), func(nw *v1alpha1.NodeWorkload) bool {
		for _, kill := range nw.Status.Kills {
			if kill.Container == container && kill.Phase == phase {
				found = kill
				return true
			}
		}
		return false
	})
	return found
}
