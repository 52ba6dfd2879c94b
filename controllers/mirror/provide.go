// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// allow reports whether the API server may be asked once more for a node.
func (r *Reconciler) allow(l *look) bool {
	if !l.held && l.writes.TryAccept() && r.total.TryAccept() {
		return true
	}
	l.held = true
	return false
}

// provide makes a mirror, or returns why there is none: the workload runs nevertheless. before is why
// there was none so far.
func (r *Reconciler) provide(ctx context.Context, l *look, w mirror.Workload, before refusal) (refusal, error) {
	ns := &corev1.Namespace{}
	err := r.client.Get(ctx, types.NamespacedName{Name: w.Namespace}, ns)
	switch {
	case apierrors.IsNotFound(err):
		return before.refuse(fmt.Sprintf("there is no namespace %q", w.Namespace)), nil
	case err != nil:
		return before, fmt.Errorf("get the namespace %q: %w", w.Namespace, err)
	case ns.Labels[v1alpha1.LabelAllowMirrors] != "true":
		return before.refuse(fmt.Sprintf("the namespace %q has no label %s=true", w.Namespace, v1alpha1.LabelAllowMirrors)), nil
	case l.held: // something may be deleted later
		return before, nil
	case len(l.mirrors) >= mirror.Max:
		return before.refuse(fmt.Sprintf("the node has %d mirrors, which is the most", mirror.Max)), nil
	case time.Now().Before(before.again) || !r.allow(l):
		return before, nil
	}
	return r.create(ctx, l, w, before)
}

// create makes a mirror. A name that is taken by another one is as good: the shim's report is late.
func (r *Reconciler) create(ctx context.Context, l *look, w mirror.Workload, before refusal) (refusal, error) {
	nw := w.Object(l.node)
	err := r.client.Create(ctx, nw)
	switch {
	case err == nil:
		l.mirrors[nw.UID] = true
		l.written, l.writtenAt = fleet.Later(l.written, nw.ResourceVersion), time.Now()
		return refusal{}, nil
	case apierrors.IsAlreadyExists(err) && r.isMirror(nw, l.node):
		return refusal{}, nil
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return before.refuse(writes.Limit(err.Error(), maxReason)).backOff(time.Now()), nil
	}
	return before, fmt.Errorf("create the mirror of %s/%s: %w", w.Namespace, w.Name, err)
}

// isMirror reports whether the NodeWorkload of a mirror's name is one of the node, as far as is known.
func (r *Reconciler) isMirror(nw *v1alpha1.NodeWorkload, node string) bool {
	s := r.index.Get(client.ObjectKeyFromObject(nw))
	return s == nil || s.Node == node && s.Labels[v1alpha1.LabelStatic] == "true"
}

// delete deletes a mirror of a node, and nothing else.
func (r *Reconciler) delete(ctx context.Context, l *look, m mirror.Mirror) error {
	nw := &v1alpha1.NodeWorkload{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, nw)
	switch {
	case apierrors.IsNotFound(err):
		if known := r.index.Get(client.ObjectKey{Namespace: m.Namespace, Name: m.Name}); known != nil {
			l.lost(known.UID) // not what the report says: any mirror may stand there
		}
		return nil
	case err != nil:
		return fmt.Errorf("get the mirror %s/%s: %w", m.Namespace, m.Name, err)
	case nw.UID != m.UID, nw.Spec.NodeName != l.node, !mirror.Is(nw):
		return nil
	}
	err = r.client.Delete(ctx, nw, client.Preconditions(metav1.Preconditions{UID: &nw.UID}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the mirror %s/%s: %w", m.Namespace, m.Name, err)
	}
	l.lost(nw.UID)
	return nil
}

// lost notes that a NodeWorkload was found to be deleted.
func (l *look) lost(uid types.UID) {
	delete(l.mirrors, uid)
	l.gone[uid] = time.Now()
}
