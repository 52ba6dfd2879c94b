// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// maxUnavailable is where the budget of a roll-out stands. It is written without the type
// so that versions without a budget can be measured too.
var maxUnavailable = []string{"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"}

// create creates a workload with its budget.
func (f *fleet) create(ctx context.Context, mw *v1alpha1.ManagedWorkload) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mw)
	if err != nil {
		return fmt.Errorf("convert %s: %w", mw.Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ManagedWorkload"))
	unstructured.RemoveNestedField(object.Object, "status")
	budget := any(f.options.maxUnavailable)
	if number := intstr.Parse(f.options.maxUnavailable); number.Type == intstr.Int {
		budget = int64(number.IntVal)
	}
	if err := unstructured.SetNestedField(object.Object, budget, maxUnavailable...); err != nil {
		return fmt.Errorf("set the budget of %s: %w", mw.Name, err)
	}
	return f.api.Create(ctx, object)
}

// budget is how many nodes a roll-out of the first workload may change at once; all of them
// where the version that is measured has no budget.
func (f *fleet) budget(ctx context.Context) (int, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ManagedWorkload"))
	if err := f.api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: workloadName(0)}, object); err != nil {
		return 0, fmt.Errorf("get the budget: %w", err)
	}
	if _, found, err := unstructured.NestedFieldNoCopy(object.Object, maxUnavailable...); err != nil || !found {
		return f.options.nodes, err
	}
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
