// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// An object that is not being deleted keeps its finalizer, whatever the worker thinks: the
// API's storage may have been restored from a backup.
func TestReleaseOfWhatIsNotDeleted(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload(v1alpha1.Finalizer))
	p := newPublisher(api, api, api)
	if err := p.Release(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	got, err := p.Live(t.Context(), types.NamespacedName{Namespace: "ns", Name: "n"})
	if err != nil || !slices.Equal(got.Finalizers, []string{v1alpha1.Finalizer}) {
		t.Errorf("object %+v, error %v, want its finalizer kept", got, err)
	}
}

func TestLiveWithoutObject(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	if _, err := newPublisher(api, api, api).Live(t.Context(), types.NamespacedName{Namespace: "ns", Name: "n"}); !errors.Is(err, podworker.ErrGone) {
		t.Errorf("error %v, want ErrGone", err)
	}
}

func TestMatters(t *testing.T) {
	change := func(f func(*v1alpha1.NodeWorkload)) *v1alpha1.NodeWorkload {
		nw := nodeWorkload()
		nw.ResourceVersion = "2"
		f(nw)
		return nw
	}
	tests := map[string]struct {
		after *v1alpha1.NodeWorkload
		want  bool
	}{
		"labels":                          {change(func(nw *v1alpha1.NodeWorkload) { nw.Labels = map[string]string{"a": "b"} }), false},
		"a finalizer":                     {change(func(nw *v1alpha1.NodeWorkload) { nw.Finalizers = nil }), false},
		"the generation":                  {change(func(nw *v1alpha1.NodeWorkload) { nw.Generation++ }), true},
		"the spec of the same generation": {change(func(nw *v1alpha1.NodeWorkload) { nw.Spec.NodeName = "other" }), true},
		"the status":                      {change(func(nw *v1alpha1.NodeWorkload) { nw.Status.Phase = "Pending" }), true},
		"another instance":                {change(func(nw *v1alpha1.NodeWorkload) { nw.UID = "other" }), true},
		"the deletion":                    {change(func(nw *v1alpha1.NodeWorkload) { nw.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), true},
		"who asks": {change(func(nw *v1alpha1.NodeWorkload) {
			nw.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: "x"}
		}), true},
		"nothing, as told now and then": {func() *v1alpha1.NodeWorkload { nw := nodeWorkload(); nw.ResourceVersion = "1"; return nw }(), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := nodeWorkload()
			before.ResourceVersion = "1"
			if got := matters().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("matters = %t, want %t", got, tt.want)
			}
		})
	}
}
