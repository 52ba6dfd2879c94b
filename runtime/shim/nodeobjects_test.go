// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/objects"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// fakeWorkloads are some workloads, and those that were woken.
type fakeWorkloads struct {
	known []podworker.Known
	woken []types.UID
}

func (f *fakeWorkloads) Known() []podworker.Known { return f.known }

func (f *fakeWorkloads) Wake(uid types.UID) bool {
	f.woken = append(f.woken, uid)
	return true
}

// knownPod is a workload that refers to a Secret.
func knownPod(namespace string, uid types.UID, secret string) podworker.Known {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
	}}}}}
	return podworker.Known{Identity: podworker.Identity{Namespace: namespace, UID: uid}, Pod: pod}
}

func TestAChangedObjectWakesWhatRefersToIt(t *testing.T) {
	asks, err := newObjectClient(&rest.Config{Host: "http://api"}, http.DefaultClient, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	pool := &fakeWorkloads{}
	n := newNodeObjects(asks, &nodeUID{}, func() workloads { return pool }, nil, logr.Discard())
	pool.known = []podworker.Known{{Identity: podworker.Identity{Namespace: "ns", UID: "none"}}, {Pod: &corev1.Pod{}}}
	if n.refersToAny() {
		t.Error("a workload without objects refers to one")
	}
	pool.known = append(pool.known, knownPod("ns", "1", "a"), knownPod("ns", "2", "b"), knownPod("ns", "3", "c"), knownPod("other", "4", "a"))
	if !n.refersToAny() {
		t.Error("no workload refers to an object")
	}
	if err := n.Apply(nodeObject("a", "1"), nodeObject("b", "1")); err != nil {
		t.Fatal(err)
	}
	if want := []types.UID{"1", "2"}; !slices.Equal(pool.woken, want) {
		t.Errorf("woken: %v, want %v", pool.woken, want)
	}
}

// A template that waits has other objects than what is kept meanwhile, which may be started
// again: those stay until it is gone.
func TestObjectsOfAKeptPodStay(t *testing.T) {
	asks, err := newObjectClient(&rest.Config{Host: "http://api"}, http.DefaultClient, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	pool := &fakeWorkloads{known: []podworker.Known{knownPod("ns", "1", "a"), knownPod("other", "2", "a")}}
	n := newNodeObjects(asks, &nodeUID{}, func() workloads { return pool }, nil, logr.Discard())
	if err := n.Apply(nodeObject("a", "1")); err != nil {
		t.Fatal(err)
	}
	key := objects.Key{Namespace: "ns", Ref: apiobjects.Ref{Kind: apiobjects.Secret, Name: "a"}}
	kept := pool.known[0].Pod
	pool.known[0].Pod, pool.known[0].Kept = &corev1.Pod{}, []*corev1.Pod{kept}
	pool.known[1].Pod = nil
	n.Forget(key)
	if _, err := n.Secret("ns", "a"); err != nil || !n.refersToAny() {
		t.Errorf("of a kept pod: %v, needed %t", err, n.refersToAny())
	}
	pool.woken = nil
	if err := n.Apply(nodeObject("a", "2")); err != nil || !slices.Equal(pool.woken, []types.UID{"1"}) {
		t.Errorf("woken %v, error %v", pool.woken, err)
	}
	n.Forget(key)
	pool.known[0].Kept, pool.known[1] = nil, knownPod("other", "2", "a")
	n.Sweep()
	if _, err := n.Secret("ns", "a"); err == nil {
		t.Error("kept for a pod of another namespace")
	}
}

// What a workload has referred to that has ended leaves the shim's memory, although the workload's
// object is still there, once the manager does not send it any more.
func TestSecretsOfAnEndedWorkloadAreDropped(t *testing.T) {
	asks, err := newObjectClient(&rest.Config{Host: "http://api"}, http.DefaultClient, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	pool := &fakeWorkloads{known: []podworker.Known{knownPod("ns", "1", "a")}}
	n := newNodeObjects(asks, &nodeUID{}, func() workloads { return pool }, nil, logr.Discard())
	if err := n.Apply(nodeObject("a", "1")); err != nil {
		t.Fatal(err)
	}
	n.Forget(objects.Key{Namespace: "ns", Ref: apiobjects.Ref{Kind: apiobjects.Secret, Name: "a"}})
	n.Sweep()
	if _, err := n.Secret("ns", "a"); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	pool.known[0].Terminated = true
	n.Sweep()
	if _, err := n.Secret("ns", "a"); !errors.Is(err, objects.ErrNotReceived) {
		t.Errorf("when it has ended: %v", err)
	}
	if n.refersToAny() {
		t.Error("objects are watched although all workloads have ended")
	}
}

// nodes answers with a Node of a UID.
type nodes struct {
	client.Reader
	sync.Mutex
	uid    types.UID
	err    error
	asked  int
	cached bool
}

func (n *nodes) Get(_ context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	n.Lock()
	defer n.Unlock()
	n.asked++
	options := (&client.GetOptions{}).ApplyOptions(opts)
	n.cached = options.AsGetOptions().ResourceVersion == "0" && key.Name == "node-1"
	o.(*metav1.PartialObjectMetadata).UID = n.uid
	return n.err
}

func TestANodeThatBecameAnotherOneIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, needed, changed := &nodes{uid: "1"}, false, 0
		n := &nodeUID{api: api, node: "node-1", needed: func() bool {
			api.Lock()
			defer api.Unlock()
			return needed
		}, changed: func() {
			api.Lock()
			defer api.Unlock()
			changed++
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = n.keep(ctx) }()
		pass := func(want types.UID, wantChanged int) {
			t.Helper()
			api.Lock()
			api.Unlock() //nolint:staticcheck // What the test did before is done.
			time.Sleep(nodeUIDInterval)
			synctest.Wait()
			if got := n.current(); got != want || changed != wantChanged {
				t.Errorf("UID %q, changed %d times; want %q, %d", got, changed, want, wantChanged)
			}
		}
		pass("", 0)
		if api.asked != 0 {
			t.Error("asked without need")
		}
		needed = true
		pass("1", 0)
		pass("1", 0)
		api.uid = "2"
		pass("2", 1)
		api.uid, api.err = "", context.DeadlineExceeded
		pass("2", 1)
		if !api.cached {
			t.Error("the API server reads the Node from etcd")
		}
		cancel()
	})
}

// TestTokensAreAskedForByPodsWithThem pins what makes the shim look at its Node.
func TestTokensAreAskedForByPodsWithThem(t *testing.T) {
	pod := knownPod("ns", "1", "a")
	n := &nodeObjects{pool: func() workloads { return &fakeWorkloads{known: []podworker.Known{pod}} }}
	if n.asksForTokens() {
		t.Error("a Secret is no token")
	}
	pod.Pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}}}
	if !n.asksForTokens() || len(apiobjects.Tokens(&pod.Pod.Spec)) != 1 {
		t.Error("the token is not seen")
	}
}

// What asks for a token and refers to no object has the node watch the account, and when the manager
// says that the account was made again, the files with its tokens are brought up to date.
func TestAccountOfRunningContainersIsMadeAgain(t *testing.T) {
	asks := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":3600},"status":{"token":%q}}`,
			accountToken("system:serviceaccount:ns:sa")) // of account-uid
	})
	asking := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}, Spec: corev1.PodSpec{
		ServiceAccountName: "sa",
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}},
	}}
	pool := &fakeWorkloads{known: []podworker.Known{{Identity: podworker.Identity{Namespace: "ns", UID: "1"}, Pod: asking}}}
	n := newNodeObjects(asks, &nodeUID{}, func() workloads { return pool }, clock.New(clock.Config{}), logr.Discard())
	var shown []types.UID
	n.renewed = func(uid types.UID) { shown = append(shown, uid) }
	if !n.refersToAny() {
		t.Error("the account is not watched")
	}
	if _, err := n.Token(t.Context(), asking, apiobjects.Token{ExpirationSeconds: 3600}); err != nil {
		t.Fatal(err)
	}
	account := objects.Key{Namespace: "ns", Ref: apiobjects.Ref{Kind: apiobjects.ServiceAccount, Name: "sa"}}
	for _, step := range []struct {
		state v1alpha1.ObjectState
		uid   types.UID
		shown int
	}{
		{v1alpha1.ObjectForbidden, "", 0}, {v1alpha1.ObjectPresent, "account-uid", 0}, {v1alpha1.ObjectUnavailable, "", 0},
		{v1alpha1.ObjectPresent, "another", 1}, {v1alpha1.ObjectNotFound, "", 2},
	} {
		err := n.Apply(&v1alpha1.NodeObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: v1alpha1.NodeObjectName("ServiceAccount", "sa")},
			ObjectKind: "ServiceAccount", ObjectName: "sa", ObjectUID: step.uid, State: step.state,
		})
		if err != nil || len(shown) != step.shown {
			t.Errorf("%s %q: the files of pods %v are looked at, want %d; error %v", step.state, step.uid, shown, step.shown, err)
		}
	}
	n.Forget(account)
	if _, known := n.AccountUID("ns", "sa"); !known {
		t.Error("the account of what runs was forgotten")
	}
}
