// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// reasonNoMirror is the reason of the event about the Node.
const reasonNoMirror = "StaticMirrorRefused"

// say writes into the log, and as an event of the Node, why a workload has no mirror.
func (r *Reconciler) say(ctx context.Context, l *look, w types.NamespacedName, why refusal) refusal {
	if why.said || !l.words.TryAccept() {
		return why
	}
	ctrl.LoggerFrom(ctx).Info("A static workload has no mirror", "node", l.node, "workload", w.String(), "reason", why.reason)
	r.warn(l.node, fmt.Sprintf("Static workload %s runs and is not shown in the API: %s", w, why.reason))
	why.said = true
	return why
}

// sayUnread does the same for a report that is none.
func (r *Reconciler) sayUnread(ctx context.Context, node string, known *memo, reason string) {
	if known.unread == reason || !known.words.TryAccept() {
		return
	}
	ctrl.LoggerFrom(ctx).Info("The report of a shim about its static workloads cannot be read", "node", node, "reason", reason)
	r.warn(node, "The report about static workloads cannot be read: "+reason)
	known.unread = reason
}

func (r *Reconciler) warn(node, message string) {
	r.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}, corev1.EventTypeWarning, reasonNoMirror, message)
}
