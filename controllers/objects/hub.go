// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
)

const (
	// syncTimeout is how long a watch waits for the NodeWorkloads to be known.
	syncTimeout = 10 * time.Second
	// maxWatches is how many watches a node may have. A shim has one, and while its connection
	// is replaced an earlier one.
	maxWatches = 3
	// maxFirst is how many nodes get their initial objects at once, and maxTurn how long a slow
	// one may keep others from theirs.
	maxFirst = 32
	maxTurn  = 10 * time.Second
	// watchFor is how long an object is watched until the API server is asked for the right
	// again, and 1.5 times as long at most.
	watchFor = time.Minute
)

// Shares knows what the NodeWorkloads of nodes refer to.
type Shares interface {
	// WaitForSync waits until all NodeWorkloads are known.
	WaitForSync(ctx context.Context) error
	// References are the objects that NodeWorkloads of a node refer to, and the service accounts of
	// their tokens, each once.
	References(node string) []apiobjects.Key
	// ListenReferences calls listener for each node whose References may have changed.
	ListenReferences(listener func(node string))
	// Tokens are those that a NodeWorkload of a node asks for.
	Tokens(node, namespace, name string) []apiobjects.AccountTokens
}

// Reader reads ConfigMaps and Secrets, and makes tokens of service accounts. It is a part of what client-go has for core/v1: whoever
// holds its clientset has the clients of all groups in the program.
type Reader interface {
	typedcorev1.ConfigMapsGetter
	typedcorev1.SecretsGetter
	typedcorev1.ServiceAccountsGetter
	RESTClient() rest.Interface
}

// Hub gives each node the objects that its NodeWorkloads refer to, on every replica of the
// manager. It holds each object once.
type Hub struct {
	client  Reader
	shares  Shares
	account *account
	tokens  tokenRights
	asked   asked
	keys    askedKeys
	// checks bounds how many service accounts are asked about.
	checks flowcontrol.RateLimiter
	// first has a place for each node that gets its initial objects.
	first chan struct{}
	// watchFor and checkEvery are what tests shorten, and maxObjects what they lower.
	watchFor, checkEvery time.Duration
	maxObjects           int
	running              sync.WaitGroup

	mu sync.Mutex
	// launch starts something that runs until it is cancelled or the manager ends, nil while
	// the hub does not run.
	launch  func(do func(ctx context.Context)) context.CancelFunc
	objects map[apiobjects.Key]*object
	// spaces are what the objects take, by namespace, and reads who reads now.
	spaces map[string]*space
	reads  map[reads]*readers
	// nodes are the watches of each node, the oldest first.
	nodes   map[string][]*subscription
	version uint64
}

// NewHub returns a hub that reads with a client what the NodeWorkloads of shares refer to, and
// asks with self who the manager is, and with access what it may do.
func NewHub(client Reader, self typedauthenticationv1.SelfSubjectReviewsGetter, access typedauthorizationv1.SelfSubjectAccessReviewsGetter, shares Shares) *Hub {
	h := &Hub{
		client: client, shares: shares, account: &account{client: self}, first: make(chan struct{}, maxFirst), watchFor: watchFor, checkEvery: checkEvery, maxObjects: maxObjects,
		tokens:  tokenRights{client: access, allowed: map[types.NamespacedName]time.Time{}},
		checks:  flowcontrol.NewTokenBucketRateLimiter(checkQPS, checkBurst),
		objects: map[apiobjects.Key]*object{}, nodes: map[string][]*subscription{},
		spaces: map[string]*space{}, reads: map[reads]*readers{},
	}
	shares.ListenReferences(h.referencesChanged)
	return h
}

// Start implements manager.Runnable: it serves until ctx is done, and returns when nothing
// runs any more.
func (h *Hub) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	launch := func(do func(ctx context.Context)) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		h.running.Go(func() {
			defer cancel()
			contain.Do(log, func() { do(ctx) })
		})
		return cancel
	}
	h.setLaunch(launch)
	<-ctx.Done()
	h.setLaunch(nil)
	h.running.Wait()
	return nil
}

func (h *Hub) setLaunch(launch func(func(context.Context)) context.CancelFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.launch = launch
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica serves.
func (h *Hub) NeedLeaderElection() bool { return false }

// Watch sends what the NodeWorkloads of a node refer to, until ctx is done or the watch is
// stopped: first everything, then a bookmark with the annotation k8s.io/initial-events-end,
// then changes. DELETED says that the node does not need the object any more; one that is gone
// from the API server is MODIFIED. The objects of events are the receiver's own, but their
// Data is shared and must not be changed.
func (h *Hub) Watch(ctx context.Context, node string) (watch.Interface, error) {
	if err := h.waitForSync(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.launch == nil {
		return nil, apierrors.NewServiceUnavailable("the manager is starting or ending")
	}
	if others := h.nodes[node]; len(others) >= maxWatches {
		others[0].cancel()
	}
	s := newSubscription(h, node)
	h.nodes[node] = append(h.nodes[node], s)
	h.want(s, h.shares.References(node))
	s.begin()
	cancel := h.launch(s.run)
	s.cancel = cancel
	context.AfterFunc(ctx, cancel)
	return s, nil
}

// waitForSync waits until it is known what nodes refer to: a node that gets less would take it
// for all that it needs.
func (h *Hub) waitForSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := h.shares.WaitForSync(ctx); err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	return nil
}

// Tokens are those that a NodeWorkload of a node asks for, and after them those of earlier templates of
// which something may run. None: the node has no such NodeWorkload.
func (h *Hub) Tokens(node, namespace, name string) []apiobjects.AccountTokens {
	return h.shares.Tokens(node, namespace, name)
}

// referencesChanged looks at what a node needs now.
func (h *Hub) referencesChanged(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.nodes[node]) == 0 || h.launch == nil {
		return
	}
	keys := h.shares.References(node)
	for _, s := range h.nodes[node] {
		h.want(s, keys)
	}
}

// want gives a watch other keys. The mutex is held.
func (h *Hub) want(s *subscription, keys []apiobjects.Key) {
	before := s.wanted
	s.wanted = make(map[apiobjects.Key]bool, len(keys))
	for _, key := range keys {
		s.wanted[key] = true
		if !before[key] {
			h.acquire(key, s)
			s.mark(key)
		}
	}
	for key := range before {
		if !s.wanted[key] {
			h.release(key, s)
			s.mark(key)
		}
	}
}

// leave ends what a watch needed.
func (h *Hub) leave(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range s.wanted {
		h.release(key, s)
	}
	s.wanted = nil
	h.nodes[s.node] = slices.DeleteFunc(h.nodes[s.node], func(o *subscription) bool { return o == s })
	if len(h.nodes[s.node]) == 0 {
		delete(h.nodes, s.node)
	}
}

// acquire watches an object for a watch of a node. The mutex is held, and the hub runs.
func (h *Hub) acquire(key apiobjects.Key, s *subscription) {
	o := h.objects[key]
	if o == nil {
		o = &object{hub: h, key: key, kick: make(chan struct{}, 1), subscribers: map[*subscription]bool{}}
		h.objects[key] = o
		h.watch(o)
	}
	o.subscribers[s] = true
}

// release ends the watch of an object that no node needs any more. The mutex is held.
func (h *Hub) release(key apiobjects.Key, s *subscription) {
	o := h.objects[key]
	if o == nil {
		return
	}
	delete(o.subscribers, s)
	if len(o.subscribers) == 0 {
		delete(h.objects, key)
		h.vacate(o)
	}
}

// stateOf is what is known of an object.
func (h *Hub) stateOf(o *object) *subresources.NodeObject {
	h.mu.Lock()
	defer h.mu.Unlock()
	return o.state
}

// set notes what is known of an object now.
func (h *Hub) set(o *object, state *subresources.NodeObject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects[o.key] != o {
		return
	}
	if state = h.fit(o, state); same(o.state, state) {
		return
	}
	allowed := o.state != nil && o.state.State == subresources.ObjectForbidden
	h.version++
	state.ResourceVersion = strconv.FormatUint(h.version, 10)
	o.state, o.version = state, h.version
	if allowed {
		h.retryForbidden(o.key.Namespace)
	}
	for s := range o.subscribers {
		s.mark(o.key)
	}
}

// retryForbidden reads again at once what a namespace forbade: it gives one right after
// another. The mutex is held.
func (h *Hub) retryForbidden(namespace string) {
	for key, o := range h.objects {
		if key.Namespace == namespace && o.state != nil && o.state.State == subresources.ObjectForbidden {
			o.retry()
		}
	}
}

// turn waits for the turn to send initial objects. done ends it; it may be called twice.
func (h *Hub) turn(ctx context.Context) (done func(), err error) {
	select {
	case h.first <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the turn: %w", ctx.Err())
	}
	log := logr.FromContextOrDiscard(ctx)
	free := sync.OnceFunc(func() { <-h.first })
	late := time.AfterFunc(maxTurn, func() { contain.Do(log, free) })
	return func() {
		late.Stop()
		free()
	}, nil
}
