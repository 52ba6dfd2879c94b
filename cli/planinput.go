// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/forecast"
)

// surroundings are what all plans of a file depend on.
type surroundings struct {
	// nodes are those of the cluster; nil if they may not be listed.
	nodes []corev1.Node
	// shims are the nodes that ever had a shim; nil if that is not known, and note says why.
	shims map[string]bool
	note  string
}

// surroundings reads the nodes, and the Leases of the shims in the manager's namespace, as
// far as that is allowed.
func (c *cluster) surroundings(ctx context.Context, managerNamespace string) (s surroundings, err error) {
	s.nodes = []corev1.Node{}
	list := &corev1.NodeList{}
	err = c.pages(ctx, list, func() error {
		for i := range list.Items {
			list.Items[i].Status, list.Items[i].ManagedFields = corev1.NodeStatus{}, nil
		}
		s.nodes = append(s.nodes, list.Items...)
		list.Items = nil
		return nil
	})
	switch {
	case apierrors.IsForbidden(err):
		s.nodes = nil
	case err != nil:
		return s, fmt.Errorf("list Nodes: %w", err)
	}
	s.shims, s.note, err = c.shims(ctx, managerNamespace)
	return s, err
}

// shims are the nodes that ever had a shim, by their Leases. They are nil if that cannot be
// seen; then note says why.
func (c *cluster) shims(ctx context.Context, namespace string) (shims map[string]bool, note string, err error) {
	shims = map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("LeaseList"))
	err = c.pages(ctx, list, func() error {
		for _, lease := range list.Items {
			if node, ok := strings.CutPrefix(lease.Name, v1alpha1.LeaseNamePrefix); ok {
				shims[node] = true
			}
		}
		list.Items = nil
		return nil
	}, client.InNamespace(namespace))
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("You may not list Leases in the namespace %q: each node is taken to have a shim.", namespace), nil
	case err != nil:
		return nil, "", fmt.Errorf("list Leases of shims: %w", err)
	case len(shims) == 0:
		return nil, fmt.Sprintf("The namespace %q has no Lease of a shim: each node is taken to have a shim. "+
			"If the manager runs in another namespace, name it with --manager-namespace.", namespace), nil
	}
	return shims, "", nil
}

// forecast computes what a ManagedWorkload would do to the nodes.
func (c *cluster) forecast(ctx context.Context, after *v1alpha1.ManagedWorkload, around *surroundings, in forecast.Input) (*forecast.Forecast, error) {
	in.After, in.Nodes, in.Shims = after, around.nodes, around.shims
	var err error
	if in.Revisions, err = c.revisions(ctx, after); err != nil {
		return nil, err
	}
	if in.Taken, err = c.nodeWorkloadNames(ctx); err != nil { // before its own, which may come meanwhile
		return nil, err
	}
	in.NodeWorkloads, err = c.nodeWorkloads(ctx, after.Name, func(nw *v1alpha1.NodeWorkload) { nw.ManagedFields, nw.Status.Kills = nil, nil })
	if err != nil {
		return nil, err
	}
	in.NodeWorkloads = slices.DeleteFunc(in.NodeWorkloads, func(nw v1alpha1.NodeWorkload) bool { return !belongs(&nw, after) })
	for i := range in.NodeWorkloads {
		delete(in.Taken, in.NodeWorkloads[i].Name)
	}
	admitted, note, err := c.admitted(ctx, after)
	if err != nil {
		return nil, err
	}
	in.Admitted = admitted
	result := forecast.Compute(in)
	if note != "" {
		result.Notes = append(result.Notes, note)
	}
	if around.note != "" {
		result.Notes = append(result.Notes, around.note)
	}
	return result, nil
}

// belongs reports whether a NodeWorkload with the label of a ManagedWorkload is one of it: the manager adopts one that
// has no controller, and takes over none that has another.
func belongs(nw *v1alpha1.NodeWorkload, mw *v1alpha1.ManagedWorkload) bool {
	if controller := metav1.GetControllerOfNoCopy(nw); controller != nil {
		return controller.UID == mw.UID
	}
	return nw.DeletionTimestamp.IsZero() && nw.Name == placement.NodeWorkloadName(mw.Name, nw.Spec.NodeName)
}

// nodeWorkloadNames reads the names of all NodeWorkloads of the namespace.
func (c *cluster) nodeWorkloadNames(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWorkloadList"))
	err := c.pages(ctx, list, func() error {
		for i := range list.Items {
			names[list.Items[i].Name] = true
		}
		list.Items = nil
		return nil
	}, client.InNamespace(c.namespace))
	if err != nil {
		return nil, fmt.Errorf("list the names of NodeWorkloads: %w", err)
	}
	return names, nil
}
