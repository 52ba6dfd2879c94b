// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A read of NodeWorkloads through the cache would fill the memory with all of them.
func TestNodeWorkloadsAreNotReadThroughTheCache(t *testing.T) {
	c := guarded{fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).Build()}
	partial, partials := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWorkload"))
	partials.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWorkloadList"))
	for _, obj := range []client.Object{&v1alpha1.NodeWorkload{}, partial} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, obj); !errors.Is(err, errCachedRead) {
			t.Errorf("get %T: %v", obj, err)
		}
	}
	for _, list := range []client.ObjectList{&v1alpha1.NodeWorkloadList{}, partials} {
		if err := c.List(t.Context(), list); !errors.Is(err, errCachedRead) {
			t.Errorf("list %T: %v", list, err)
		}
	}
	if err := c.List(t.Context(), &v1alpha1.ManagedWorkloadList{}); err != nil {
		t.Errorf("others: %v", err)
	}
}
