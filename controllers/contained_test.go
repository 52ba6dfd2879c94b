// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A panic about one event does not end the informer's goroutine, and with it the
// manager: an update that cannot be judged goes through.
func TestWatchesContainPanics(t *testing.T) {
	var noWorkload *v1alpha1.NodeWorkload
	var noNode *corev1.Node
	for name, h := range map[string]handler.EventHandler{
		"NodeWorkloads": (&managedWorkloadReconciler{}).watchShares(),
		"Nodes":         (&managedWorkloadReconciler{}).watchNodes(),
		"nodes":         (&nodeWorkloadReconciler{}).watchNodes(),
		"Leases":        newShims("ns").watch(nil),
	} {
		t.Run(name, func(*testing.T) {
			h := contained{h}
			h.Create(t.Context(), event.CreateEvent{}, nil)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: noWorkload, ObjectNew: noWorkload}, nil)
			h.Delete(t.Context(), event.DeleteEvent{}, nil)
		})
	}
	for name, p := range map[string]predicate.Predicate{
		"NodeWorkloads": nodeWorkloadChanged(), "Nodes": nodeChanged(), "ManagedWorkloads": workloadChanged(),
	} {
		t.Run("changed "+name, func(t *testing.T) {
			e := event.UpdateEvent{ObjectOld: noWorkload, ObjectNew: noWorkload}
			if name == "Nodes" {
				e = event.UpdateEvent{ObjectOld: noNode, ObjectNew: noNode}
			}
			if !containedUpdates(logr.Discard(), p).Update(e) {
				t.Error("an update that cannot be judged is left out")
			}
		})
	}
}
