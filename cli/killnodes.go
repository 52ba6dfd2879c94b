// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// checkNamed refuses a node of --node that does not run the workload: a request about a misspelt
// one would have nothing to do, and succeed. A stop is also about what comes later, so that a Node
// without the workload is enough for it.
func (c *cluster) checkNamed(ctx context.Context, mw *v1alpha1.ManagedWorkload, kr *v1alpha1.KillRequest) error {
	for _, node := range kr.Spec.Nodes.Names {
		runs, err := c.runsOn(ctx, mw, node)
		switch {
		case apierrors.IsForbidden(err): // the manager says what comes of it
			return nil
		case err != nil:
			return err
		case runs:
			continue
		case kr.Spec.Action == v1alpha1.RequestStop:
			err = c.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{})
		default:
			err = errors.New("it has no NodeWorkload there")
		}
		if err != nil {
			return fmt.Errorf("--node: managedworkload %q does not run on node %q: %w", mw.Name, node, err)
		}
	}
	return nil
}

// runsOn reports whether a workload has a NodeWorkload on a node.
func (c *cluster) runsOn(ctx context.Context, mw *v1alpha1.ManagedWorkload, node string) (bool, error) {
	list := &v1alpha1.NodeWorkloadList{}
	if err := c.List(ctx, list, append(c.of(mw.Name), client.MatchingFields{"spec.nodeName": node})...); err != nil {
		return false, fmt.Errorf("list the NodeWorkloads of node %q: %w", node, err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], mw) {
			return true, nil
		}
	}
	return false, nil
}
