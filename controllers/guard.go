// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// errCachedRead is what a read of NodeWorkloads through the cache gets: it would fill the
// memory with all of them. fleet.Index knows what is needed; the whole of one object is read
// from the API server.
var errCachedRead = errors.New("NodeWorkloads are not read through the cache")

// guarded is a client whose reads of NodeWorkloads fail.
type guarded struct{ client.Client }

// Get implements client.Reader.
func (g guarded) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if g.forbids(obj) {
		return errCachedRead
	}
	return g.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (g guarded) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if g.forbids(list) {
		return errCachedRead
	}
	return g.Client.List(ctx, list, opts...)
}

func (g guarded) forbids(obj runtime.Object) bool {
	gvk, err := apiutil.GVKForObject(obj, g.Scheme())
	return err == nil && gvk.Group == v1alpha1.GroupVersion.Group && (gvk.Kind == "NodeWorkload" || gvk.Kind == "NodeWorkloadList")
}
