// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// create creates a workload with its budget.
func (f *fleet) create(ctx context.Context, mw *v1alpha1.ManagedWorkload) error {
	mw.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{
		RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.Parse(f.options.maxUnavailable))},
	}
	return f.api.Create(ctx, mw)
}

// budget is how many nodes a roll-out may change at once.
func (f *fleet) budget() (int, error) {
	value := intstr.Parse(f.options.maxUnavailable)
	budget, err := intstr.GetScaledValueFromIntOrPercent(&value, f.options.nodes, true)
	return max(1, budget), err
}

// annotate changes an annotation of the first workload that means nothing.
func (f *fleet) annotate(ctx context.Context, value string) error {
	mw := &v1alpha1.ManagedWorkload{}
	mw.Namespace, mw.Name = namespace, workloadName(0)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench/touched":%q}}}`, value)
	if err := f.api.Patch(ctx, mw, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("annotate: %w", err)
	}
	return nil
}

// setImage changes the image of the first workload.
func (f *fleet) setImage(ctx context.Context, image string) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	mw := &v1alpha1.ManagedWorkload{}
	mw.Namespace, mw.Name = namespace, workloadName(0)
	if err := f.api.Patch(ctx, mw, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		return fmt.Errorf("set the image: %w", err)
	}
	// What the observer sees may be older: it must not be taken for the answer.
	return f.observer.await(ctx, mw.Name, func(w *observed) bool { return w.mw.Generation >= mw.Generation })
}
