// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/managedworkload/managedworkload/api/template"
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
	got, err := p.Live(t.Context(), identity)
	if err != nil || !slices.Equal(got.Finalizers, []string{v1alpha1.Finalizer}) {
		t.Errorf("object %+v, error %v, want its finalizer kept", got, err)
	}
}

// After a restore of etcd that takes a deletion back, the cache still shows the deletion beside the version
// of the last write: the finalizer of what is wanted again is kept.
func TestReleaseAfterADeletionWasTakenBack(t *testing.T) {
	deleted := nodeWorkload(v1alpha1.Finalizer)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cached := newFakeAPI(t, interceptor.Funcs{}, deleted)
	api := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload(v1alpha1.Finalizer))
	p := newPublisher(cached, api, api)
	for _, summary := range []string{"Running", "Killing"} { // the second meets the version of the first
		if err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: summary}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Release(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	got, err := p.Live(t.Context(), identity)
	if err != nil || !slices.Equal(got.Finalizers, []string{v1alpha1.Finalizer}) {
		t.Errorf("object %+v, error %v, want its finalizer kept", got, err)
	}
}

// Workers that are restored report before the cache has started: they wait for it, and no try fails.
func TestStatusBeforeTheCacheHasStarted(t *testing.T) {
	started := false
	api := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
	cached := newFakeAPI(t, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if !started {
				return &cache.ErrCacheNotStarted{}
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
	p := newPublisher(cached, api, api)
	if err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: "Running"}); err == nil {
		t.Error("no error without a cache to wait for")
	}
	p.started = func(context.Context) bool { return false }
	if err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: "Running"}); err == nil {
		t.Error("no error although the cache has not started in time")
	}
	p.started = func(context.Context) bool { started = true; return true }
	if err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: "Running"}); err != nil {
		t.Fatal(err)
	}
	got, err := p.Live(t.Context(), identity)
	if err != nil || got.Status.Summary != "Running" {
		t.Errorf("status %+v, error %v", got, err)
	}
}

func TestLiveWithoutObject(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	if _, err := newPublisher(api, api, api).Live(t.Context(), identity); !errors.Is(err, podworker.ErrGone) {
		t.Errorf("error %v, want ErrGone", err)
	}
}

// An object is gone when the API server has none of its name, not when it does not know
// the kind, or the kind's status: a worker would stop reporting what is there.
func TestGoneIsWhatTheAPIServerLacks(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nodeworkloads"}
	noKind := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "n", "404 page not found", 0, true)
	notFound := apierrors.NewNotFound(resource, "n")
	tests := map[string]struct {
		read, write error
		wantGone    bool
	}{
		"no object":                   {read: notFound, wantGone: true},
		"deleted before the write":    {write: notFound, read: notFound, wantGone: true},
		"the kind is not known":       {read: noKind},
		"the kind has no status":      {write: notFound},
		"it went before it was asked": {write: notFound, read: noKind},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cached := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
			live := newFakeAPI(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					return cmp.Or(tt.read, c.Get(ctx, key, obj, opts...))
				},
				SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
					return tt.write
				},
			}, nodeWorkload())
			p := newPublisher(live, live, live)
			if tt.write != nil {
				p.cached = cached
			}
			err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: "Running"})
			if err == nil || errors.Is(err, podworker.ErrGone) != tt.wantGone {
				t.Errorf("error %v, want ErrGone: %t", err, tt.wantGone)
			}
		})
	}
}

// A status that is too large for the API server, or for etcd, is written with less in it,
// and whole again when it fits.
func TestPublishTooLarge(t *testing.T) {
	tests := map[string]error{
		"the API server": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"etcd":           errors.New("etcdserver: request is too large"),
		"its client":     errors.New("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2100000 vs. 2097152)"),
		"a bound":        apierrors.NewInvalid(schema.GroupKind{}, "n", field.ErrorList{field.TooMany(field.NewPath("status", "kills"), 200, 100)}),
	}
	for name, refusal := range tests {
		t.Run(name, func(t *testing.T) {
			limit, tries := 20_000, 0
			api := newFakeAPI(t, interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
					tries++
					if sizeOf(&obj.(*v1alpha1.NodeWorkload).Status) > limit {
						return refusal
					}
					return c.SubResource(sub).Update(ctx, obj, opts...)
				},
			}, nodeWorkload())
			p := newPublisher(api, api, api)
			st := &v1alpha1.NodeWorkloadStatus{Summary: "Running", Kills: []v1alpha1.KillRecord{{ID: "u", Container: "c", Phase: v1alpha1.KillPhaseStopping}}}
			for i := range 60 {
				st.Kills = append(st.Kills, v1alpha1.KillRecord{ID: fmt.Sprint(i), Container: "c", Phase: v1alpha1.KillPhaseDone, Message: strings.Repeat("x", 1000)})
			}
			publish := func() *template.Workload {
				t.Helper()
				if err := p.Publish(t.Context(), identity, st); err != nil {
					t.Fatal(err)
				}
				nw, err := p.Live(t.Context(), identity)
				if err != nil {
					t.Fatal(err)
				}
				return nw
			}
			got := publish()
			c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStatusTruncated)
			if c == nil || c.Status != metav1.ConditionTrue || len(got.Status.Kills) != 6 || got.Status.Kills[0].ID != "u" || got.Status.Summary != "Running" {
				t.Errorf("condition %+v, %d kills", c, len(got.Status.Kills))
			}
			if meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionShimResponding) == nil {
				t.Error("the manager's condition is lost")
			}
			tries = 0
			publish()
			if tries > 1 {
				t.Errorf("%d tries for what is known to be too large", tries)
			}
			st.Kills = st.Kills[:3]
			got = publish()
			if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStatusTruncated); c != nil || len(got.Status.Kills) != 3 {
				t.Errorf("condition %+v, %d kills once it fits", c, len(got.Status.Kills))
			}
			limit = 10
			st.Summary = "Terminating"
			if err := p.Publish(t.Context(), identity, st); !errors.Is(err, podworker.ErrRefused) {
				t.Errorf("error %v, want ErrRefused when nothing fits", err)
			}
		})
	}
}

// A change that cannot be judged matters, and ends nothing.
func TestMattersContainsPanics(t *testing.T) {
	var none *v1alpha1.NodeWorkload
	if !matters(logr.Discard()).Update(event.UpdateEvent{ObjectOld: none, ObjectNew: none}) {
		t.Error("it does not matter")
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
		"nothing, as happens now and then": {func() *v1alpha1.NodeWorkload { nw := nodeWorkload(); nw.ResourceVersion = "1"; return nw }(), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := nodeWorkload()
			before.ResourceVersion = "1"
			if got := matters(logr.Discard()).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("matters = %t, want %t", got, tt.want)
			}
		})
	}
}

// A status that is in the API already after a conflict is known from then on: the cache may
// still show the one before, which is written when it comes back.
func TestPublishAfterAnAnswerThatWasLost(t *testing.T) {
	cached := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
	live := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
	p := newPublisher(cached, live, live)
	running, ready := &v1alpha1.NodeWorkloadStatus{Summary: "Running"}, &v1alpha1.NodeWorkloadStatus{Summary: "Ready"}
	for _, api := range []client.Client{cached, live} {
		if err := newPublisher(api, api, api).Publish(t.Context(), identity, ready); err != nil {
			t.Fatal(err)
		}
	}
	// The API has Running, and the answer to its write did not arrive.
	if err := newPublisher(live, live, live).Publish(t.Context(), identity, running); err != nil {
		t.Fatal(err)
	}
	for _, st := range []*v1alpha1.NodeWorkloadStatus{running, ready} {
		if err := p.Publish(t.Context(), identity, st); err != nil {
			t.Fatal(err)
		}
	}
	nw, err := p.Live(t.Context(), identity)
	if err != nil || nw.Status.Summary != "Ready" {
		t.Errorf("the API has %q, error %v, want Ready", nw.Status.Summary, err)
	}
}
