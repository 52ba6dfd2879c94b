// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/simnode"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// shims are those of all nodes of the fleet in one process: the publisher of the real one
// over simulated nodes. The NodeWorkloads come from one watch for all.
type shims struct {
	cached    client.Reader
	api       client.Client
	publisher podworker.Publisher
	times     simnode.Times
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	events    chan *corev1.Event
	group     sync.WaitGroup

	mu     sync.Mutex
	shares map[types.NamespacedName]*share
	failed map[string]int
}

// share is what a node has of a NodeWorkload. The queue has one sync of it at a time; mu is
// not held while that waits for the API server.
type share struct {
	uid types.UID
	// published is the status that was written last, and announced the hash of the template
	// whose start had its events. Both belong to sync.
	published *v1alpha1.NodeWorkloadStatus
	announced string

	mu   sync.Mutex
	node simnode.Share
}

// step brings what the node has to where it is now.
func (sh *share) step(nw *v1alpha1.NodeWorkload, t simnode.Times) (st *v1alpha1.NodeWorkloadStatus, wait time.Duration, ended bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st, wait = sh.node.Step(nw, t, time.Now())
	return st, wait, sh.node.Ended()
}

// reporters write at the same time; a fleet would have as many as nodes.
const reporters = 64

func newShims(cached client.Reader, api client.Client, publisher podworker.Publisher, times simnode.Times) *shims {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, 30*time.Second)
	return &shims{
		cached: cached, api: api, publisher: publisher, times: times,
		queue: workqueue.NewTypedRateLimitingQueue(limiter), events: make(chan *corev1.Event, 100_000),
		shares: map[types.NamespacedName]*share{}, failed: map[string]int{},
	}
}

// run works until ctx is done.
func (s *shims) run(ctx context.Context) {
	for range reporters {
		s.group.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	for range reporters / 4 {
		s.group.Go(func() { s.sendEvents(ctx) })
	}
	<-ctx.Done()
	s.queue.ShutDown()
	s.group.Wait()
}

func (s *shims) next(ctx context.Context) bool {
	key, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(key)
	wait, err := s.sync(ctx, key)
	switch {
	case err != nil && ctx.Err() == nil:
		s.note(err)
		s.queue.AddRateLimited(key)
	default:
		s.queue.Forget(key)
		if wait > 0 {
			s.queue.AddAfter(key, wait)
		}
	}
	return true
}

// sync steps what a node has of a NodeWorkload, and reports it.
func (s *shims) sync(ctx context.Context, key types.NamespacedName) (wait time.Duration, err error) {
	nw := &v1alpha1.NodeWorkload{}
	if err := s.cached.Get(ctx, key, nw); err != nil {
		s.forget(key)
		return 0, client.IgnoreNotFound(err)
	}
	ctx = asNode(ctx, nw.Spec.NodeName)
	sh := s.share(key, nw.UID)
	st, wait, ended := sh.step(nw, s.times)
	id := podworker.Identity{UID: nw.UID, Namespace: nw.Namespace, Name: nw.Name}
	if !equality.Semantic.DeepEqual(sh.published, st) { // a real worker too publishes news only
		if err = s.publisher.Publish(ctx, id, st); err == nil {
			sh.published = st
		}
	}
	if err == nil && ended {
		err = s.publisher.Release(ctx, id)
	}
	if errors.Is(err, podworker.ErrGone) {
		return 0, nil
	}
	if err == nil {
		s.announce(nw, sh, st)
	}
	return wait, err
}

// share is what there is of an instance; that of an earlier one of its name is replaced.
func (s *shims) share(key types.NamespacedName, uid types.UID) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shares[key] == nil || s.shares[key].uid != uid {
		s.shares[key] = &share{uid: uid}
	}
	return s.shares[key]
}

func (s *shims) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shares, key)
}

// change does something to what a node has of a NodeWorkload, and has it reported.
func (s *shims) change(key types.NamespacedName, do func(*simnode.Share)) {
	s.mu.Lock()
	sh := s.shares[key]
	s.mu.Unlock()
	if sh == nil {
		return
	}
	sh.mu.Lock()
	do(&sh.node)
	sh.mu.Unlock()
	s.queue.Add(key)
}

// kills is how many containers all nodes have killed.
func (s *shims) kills() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shares {
		sh.mu.Lock()
		n += sh.node.Kills()
		sh.mu.Unlock()
	}
	return n
}

// note counts an error by its kind; single ones are no news while the API server restarts.
func (s *shims) note(err error) {
	reason := string(apierrors.ReasonForError(err))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[reason] == 0 && reason != "" {
		progress("A shim's write failed and is tried again: %v", err)
	}
	s.failed[reason]++
}

// announce sends the events that a shim sends when a template starts to run.
func (s *shims) announce(nw *v1alpha1.NodeWorkload, sh *share, st *v1alpha1.NodeWorkloadStatus) {
	if sh.announced == st.TemplateHash {
		return
	}
	sh.announced = st.TemplateHash
	for _, reason := range []string{"Pulled", "Created", "Started"} {
		select {
		case s.events <- newEvent(nw, reason):
		default: // the real one drops them too
		}
	}
}

func newEvent(nw *v1alpha1.NodeWorkload, reason string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: nw.Namespace, Name: fmt.Sprintf("%s.%x.%s", nw.Name, now.UnixNano(), string(reason[0]|0x20))},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeWorkload", Namespace: nw.Namespace, Name: nw.Name, UID: nw.UID,
			FieldPath: "spec.containers{app}",
		},
		Reason: reason, Message: reason + " container app", Type: corev1.EventTypeNormal, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "managedworkload-shim", Host: nw.Spec.NodeName},
	}
}

func (s *shims) sendEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.events:
			_ = s.api.Create(asNode(ctx, e.Source.Host), e) // events may be lost
		}
	}
}
