// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// fakeRuntime knows what was recorded of some pods.
type fakeRuntime struct {
	criClient
	pods []cri.Pod
}

func (r *fakeRuntime) RecordedPod(_ context.Context, uid types.UID) (*corev1.Pod, error) {
	if !slices.ContainsFunc(r.pods, func(p cri.Pod) bool { return p.UID == uid }) {
		return nil, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: string(uid)}}, nil
}

type keeperFixture struct {
	*orphanKeeper
	api      client.Client
	runtime  *fakeRuntime
	recorder *record.FakeRecorder
}

// newKeeper makes a keeper for a node with n pods on its runtime that the API
// does not have.
func newKeeper(t *testing.T, n int, objects ...client.Object) keeperFixture {
	t.Helper()
	objects = append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	f := keeperFixture{
		api: newFakeAPI(t, interceptor.Funcs{}, objects...), runtime: &fakeRuntime{}, recorder: record.NewFakeRecorder(100),
	}
	for i := range n {
		uid := fmt.Sprintf("orphan-%d", i)
		f.runtime.pods = append(f.runtime.pods, cri.Pod{UID: types.UID(uid), Namespace: "ns", Name: uid, Ours: true, ClusterID: "here"})
	}
	f.orphanKeeper = &orphanKeeper{
		runtime: f.runtime, pool: podworker.New(podworker.Config{}), cached: f.api, api: f.api,
		synced:  func() bool { return true },
		cluster: newClusterIdentity(f.api, t.TempDir()), events: &events{recorder: f.recorder, node: "node", ended: make(chan struct{})},
		lease: shimLease(f.api, nil, Options{NodeName: "node", Shared: options.Shared{Namespace: "system"}}), node: "node", progress: newProgress(),
	}
	return f
}

func (f keeperFixture) ending() (uids []string) {
	for _, k := range f.pool.Known() {
		if k.Deleting {
			uids = append(uids, string(k.UID))
		}
	}
	return uids
}

func (f keeperFixture) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l := &coordinationv1.Lease{}
	if err := f.api.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: v1alpha1.LeaseNamePrefix + "node"}, l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFewOrphansAreEnded(t *testing.T) {
	f := newKeeper(t, 2)
	foreign := cri.Pod{UID: "foreign", Namespace: "other", Name: "foreign"}
	f.runtime.pods = append(f.runtime.pods, foreign)
	f.consider(t.Context(), f.runtime.pods, "here")
	if got := f.ending(); !slices.Equal(got, []string{"orphan-0", "orphan-1"}) {
		t.Errorf("ended %q, want our two and not the foreign one", got)
	}
}

// A list that is not complete says nothing about what is gone.
func TestNoOrphansBeforeTheListIsComplete(t *testing.T) {
	f := newKeeper(t, 2)
	f.synced = func() bool { return false }
	f.consider(t.Context(), f.runtime.pods, "here")
	if got := f.ending(); len(got) != 0 {
		t.Errorf("ended %q", got)
	}
}

// Pods that were removed in the proper way between two lists are no orphans, be
// they ever so many.
func TestRemovedMeanwhileIsNoOrphan(t *testing.T) {
	for _, n := range []int{1, 3} {
		f := newKeeper(t, n)
		seen := f.runtime.pods
		f.runtime.pods = nil
		f.consider(t.Context(), seen, "here")
		if got := f.pool.Known(); len(got) != 0 || f.holding() {
			t.Errorf("of %d: workers %v, held %t", n, got, f.holding())
		}
	}
}

// Many orphans wait until a person has confirmed exactly these.
func TestManyOrphansAreHeld(t *testing.T) {
	f := newKeeper(t, 3)
	f.consider(t.Context(), f.runtime.pods, "here")
	f.consider(t.Context(), f.runtime.pods, "here")
	held := f.lease(t).Annotations[v1alpha1.AnnotationOrphansHeld]
	if got := f.ending(); len(got) != 0 || !strings.Contains(held, v1alpha1.AnnotationConfirmOrphans+"="+f.token) {
		t.Fatalf("ended %q, the lease says %q", got, held)
	}
	if len(f.recorder.Events) != 1 {
		t.Errorf("%d events, want one for the same news", len(f.recorder.Events))
	}
	restored := f.lease(t)
	restored.Annotations = nil
	if err := f.api.Update(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	if err := f.orphanKeeper.lease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := f.lease(t)
	if got := l.Annotations[v1alpha1.AnnotationOrphansHeld]; got != held {
		t.Fatalf("the lease says %q after it has lost its annotations and was renewed", got)
	}
	l.Annotations[v1alpha1.AnnotationConfirmOrphans] = f.token
	if err := f.api.Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := f.orphanKeeper.lease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.lease(t).Annotations; got[v1alpha1.AnnotationConfirmOrphans] != f.token || got[v1alpha1.AnnotationOrphansHeld] != held {
		t.Errorf("annotations %v after a renewal", got)
	}
	f.consider(t.Context(), f.runtime.pods, "here")
	if got := f.ending(); len(got) != 3 {
		t.Errorf("ended %q after the confirmation", got)
	}
	f.consider(t.Context(), nil, "here")
	if still, ok := f.lease(t).Annotations[v1alpha1.AnnotationOrphansHeld]; ok {
		t.Errorf("the lease says %q once none is held", still)
	}
}

// The list of another cluster ends nothing.
func TestOrphansOfAnotherCluster(t *testing.T) {
	f := newKeeper(t, 1)
	f.runtime.pods[0].ClusterID = "there"
	f.consider(t.Context(), f.runtime.pods, "here")
	if got := f.ending(); len(got) != 0 || f.lease(t).Annotations[v1alpha1.AnnotationOrphansHeld] == "" {
		t.Errorf("ended %q", got)
	}
}

// An object that has no worker gets one, also to end it.
func TestObjectsWithoutWorker(t *testing.T) {
	here, elsewhere, ending := nodeWorkload(), nodeWorkload(), nodeWorkload("managedworkload.dev/node")
	elsewhere.Name, elsewhere.UID, elsewhere.Spec.NodeName = "elsewhere", "e", "another"
	ending.Name, ending.UID, ending.DeletionTimestamp = "ending", "z", &metav1.Time{Time: time.Now()}
	f := newKeeper(t, 0, here, elsewhere, ending)
	f.consider(t.Context(), nil, "here")
	got := f.pool.Known()
	if len(got) != 2 || got[0].UID != here.UID || got[0].Deleting || got[1].UID != ending.UID || !got[1].Deleting {
		t.Errorf("workers %+v", got)
	}
}

// A workload that is being ended continues without its object only when it is this
// cluster that does not have it.
func TestEndingWithoutObject(t *testing.T) {
	tests := map[string]struct {
		actual string // the cluster that answers; "" if none does
		want   bool
	}{
		"this cluster":    {actual: "here", want: true},
		"another cluster": {actual: "there"},
		"no answer":       {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newKeeper(t, 0)
			nw := nodeWorkload()
			nw.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			f.pool = podworker.New(podworker.Config{ClusterID: func() string { return "here" }})
			f.pool.Update(template.Of(nw))
			reader := newFakeAPI(t, interceptor.Funcs{})
			if tt.actual != "" {
				reader = newFakeAPI(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(tt.actual)}})
			}
			f.cluster = newClusterIdentity(reader, t.TempDir())
			f.consider(t.Context(), nil, "here")
			if got := f.pool.Known()[0]; got.Gone != tt.want || !got.Deleting {
				t.Errorf("gone %t, deleting %t, want gone %t", got.Gone, got.Deleting, tt.want)
			}
			f.cluster = nil // it is not asked again
			if tt.want {
				f.consider(t.Context(), nil, "here")
			}
		})
	}
}

// However few they are, orphans are ended only when the API server itself confirms
// that it lacks this instance.
func TestOrphansAreConfirmedByALiveRead(t *testing.T) {
	resource := schema.GroupResource{Group: "managedworkload.dev", Resource: "nodeworkloads"}
	answer := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*v1alpha1.NodeWorkload); ok && err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		}}
	}
	present := func(uid types.UID) *v1alpha1.NodeWorkload {
		return &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "orphan-0", UID: uid}, Spec: v1alpha1.NodeWorkloadSpec{NodeName: "node"},
		}
	}
	tests := map[string]struct {
		live    []client.Object
		err     error
		wantEnd bool
	}{
		"no object":             {wantEnd: true},
		"another instance":      {live: []client.Object{present("another")}, wantEnd: true},
		"the list is behind":    {live: []client.Object{present("orphan-0")}},
		"no answer":             {err: context.DeadlineExceeded},
		"forbidden":             {err: apierrors.NewForbidden(resource, "orphan-0", nil)},
		"an internal error":     {err: apierrors.NewInternalError(errors.New("etcd"))},
		"the CRD is missing":    {err: apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "orphan-0", "404 page not found", 0, true)},
		"the kind is not known": {err: &meta.NoKindMatchError{}},
		"about another object":  {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newKeeper(t, 1)
			objects := append(tt.live, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}})
			f.orphanKeeper.api = newFakeAPI(t, answer(tt.err), objects...)
			for range 2 {
				f.consider(t.Context(), f.runtime.pods, "here")
			}
			if got := len(f.ending()) == 1; got != tt.wantEnd || f.holding() == tt.wantEnd {
				t.Errorf("ended %t, want %t; asked again soon: %t", got, tt.wantEnd, f.holding())
			}
		})
	}
}

// An orphan about which the API server gives no answer takes none of the time of another: that
// is ended at once.
func TestAnOrphanWithoutAnAnswerHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newKeeper(t, 2)
		f.orphanKeeper.api = newFakeAPI(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if key.Name == "orphan-0" {
				<-ctx.Done()
				return ctx.Err()
			}
			return c.Get(ctx, key, obj, opts...)
		}})
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			f.consider(t.Context(), f.runtime.pods, "here")
		}()
		synctest.Wait()
		if got := f.ending(); !slices.Equal(got, []string{"orphan-1"}) {
			t.Errorf("ended %q, want the one with an answer", got)
		}
		began := time.Now()
		<-looked
		if !f.holding() || time.Since(began) > apiTimeout {
			t.Errorf("asked again soon: %t, after %s", f.holding(), time.Since(began))
		}
	})
}
