// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/internal/informers"
)

// Pods knows the Pods that reserve. It reads them through a cache of its own, which nothing
// waits for: a manager that may not read Pods does everything else.
type Pods struct {
	cache cache.Cache
	log   logr.Logger

	mu        sync.Mutex
	byNode    map[string]map[types.UID]*Pod
	synced    func() bool
	listeners []func(nodes ...string)
}

func newPods() *Pods { return &Pods{byNode: map[string]map[types.UID]*Pod{}, log: logr.Discard()} }

// NewPods returns the Pods in a namespace, of which nothing is known before they are run.
func NewPods(mgr manager.Manager, namespace string) (*Pods, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), NewInformer: informers.New,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Namespaces: map[string]cache.Config{namespace: {}}, Label: labels.SelectorFromSet(Labels), Transform: strip,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache for Pods: %w", err)
	}
	p := newPods()
	p.cache = c
	return p, nil
}

// Start implements manager.Runnable. Only the manager that leads needs to know Pods.
func (p *Pods) Start(ctx context.Context) error {
	p.log = logr.FromContextOrDiscard(ctx)
	informer, err := p.cache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.note(obj, false) },
		UpdateFunc: func(_, obj any) { p.note(obj, false) },
		DeleteFunc: func(obj any) { p.note(obj, true) },
	})
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	p.mu.Lock()
	p.synced = registration.HasSynced
	p.mu.Unlock()
	if err := p.cache.Start(ctx); err != nil {
		return fmt.Errorf("read Pods: %w", err)
	}
	return nil
}

// Synced reports whether all Pods are known.
func (p *Pods) Synced() bool {
	p.mu.Lock()
	synced := p.synced
	p.mu.Unlock()
	return synced != nil && synced()
}

// On is the Pod that reserves on a node, the newest of several; nil where there is none. used
// reports whether any node has one.
func (p *Pods) On(node string) (pod *Pod, used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.byNode[node] {
		if pod == nil || other.Created.After(pod.Created) || other.Created.Equal(pod.Created) && other.UID > pod.UID {
			pod = other
		}
	}
	return pod, len(p.byNode) > 0
}

// Listen calls listener with the node of a Pod that has changed, and with none when the first Pod
// came or the last one went. It must not block.
func (p *Pods) Listen(listener func(nodes ...string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, listener)
}

func (p *Pods) note(obj any, gone bool) {
	if unseen, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unseen.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		contain.Do(p.log, func() { p.Observe(pod, gone) })
	}
}

// Observe notes a Pod that came, changed or is gone.
func (p *Pods) Observe(pod *corev1.Pod, gone bool) {
	node, now := pod.Spec.NodeName, podOf(pod)
	p.mu.Lock()
	used := len(p.byNode) > 0
	delete(p.byNode[node], pod.UID)
	if len(p.byNode[node]) == 0 {
		delete(p.byNode, node)
	}
	if now != nil && !gone {
		if p.byNode[node] == nil {
			p.byNode[node] = map[types.UID]*Pod{}
		}
		p.byNode[node][pod.UID] = now
	}
	turned, listeners := used != (len(p.byNode) > 0), p.listeners
	p.mu.Unlock()
	for _, listener := range listeners {
		if turned {
			listener()
		}
		if node != "" {
			listener(node)
		}
	}
}
