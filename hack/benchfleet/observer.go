// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/simnode"
)

// observer follows what the API server shows of the fleet.
type observer struct {
	mu      sync.Mutex
	changed chan struct{} // closed at each change
	// workloads are the ManagedWorkloads by name, with what is known of their nodes.
	workloads map[string]*observed
	nodes     map[types.NamespacedName]nodeFact
}

// observed is a workload as it is seen.
type observed struct {
	mw *v1alpha1.ManagedWorkload
	// ready and bad count its NodeWorkloads: that are ready, and that have the bad image.
	total, ready, bad int
	// mostBad is the largest bad so far, and lastBad when a node last got the bad image.
	mostBad int
	lastBad time.Time
}

type nodeFact struct {
	workload   string
	ready, bad bool
}

func newObserver() *observer {
	return &observer{changed: make(chan struct{}), workloads: map[string]*observed{}, nodes: map[types.NamespacedName]nodeFact{}}
}

// watchNodes follows the NodeWorkloads and hands each that changed on.
func (o *observer) watchNodes(ctx context.Context, c cache.Cache, changed func(types.NamespacedName)) error {
	informer, err := c.GetInformer(ctx, &v1alpha1.NodeWorkload{})
	if err != nil {
		return fmt.Errorf("watch NodeWorkloads: %w", err)
	}
	see := func(obj any, gone bool) {
		if nw, ok := obj.(*v1alpha1.NodeWorkload); ok {
			o.seeNode(nw, gone)
			changed(client.ObjectKeyFromObject(nw))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { see(obj, false) },
		UpdateFunc: func(_, obj any) { see(obj, false) },
		DeleteFunc: func(obj any) { see(obj, true) },
	})
	return err
}

// rewatch is the time between two watches: an informer would wait up to a minute after
// the API server was away, and that is not what is measured.
const rewatch = 100 * time.Millisecond

// watchWorkloads follows the ManagedWorkloads until ctx is done.
func (o *observer) watchWorkloads(ctx context.Context, api client.WithWatch) {
	for ctx.Err() == nil {
		w, err := api.Watch(ctx, &v1alpha1.ManagedWorkloadList{}, client.InNamespace(namespace))
		if err == nil {
			for e := range w.ResultChan() {
				if mw, ok := e.Object.(*v1alpha1.ManagedWorkload); ok {
					o.seeWorkload(mw)
				}
			}
			w.Stop()
		}
		_ = pause(ctx, rewatch)
	}
}

// of is what is known of a workload; o.mu is held.
func (o *observer) of(name string) *observed {
	if o.workloads[name] == nil {
		o.workloads[name] = &observed{}
	}
	return o.workloads[name]
}

// tell wakes who waits; o.mu is held.
func (o *observer) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *observer) seeWorkload(mw *v1alpha1.ManagedWorkload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(mw.Name).mw = mw
	o.tell()
}

func (o *observer) seeNode(nw *v1alpha1.NodeWorkload, gone bool) {
	key := client.ObjectKeyFromObject(nw)
	now := nodeFact{
		workload: nw.Labels[v1alpha1.LabelWorkload],
		ready: nw.Status.ObservedGeneration == nw.Generation &&
			meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady),
		bad: nw.Spec.Template.Spec.Containers[0].Image == simnode.BadImage,
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.nodes[key]
	if known {
		o.of(before.workload).add(before, -1)
	}
	if gone {
		delete(o.nodes, key)
	} else {
		o.nodes[key] = now
		w := o.of(now.workload)
		w.add(now, 1)
		if now.bad && !before.bad {
			w.mostBad, w.lastBad = max(w.mostBad, w.bad), time.Now()
		}
	}
	o.tell()
}

func (w *observed) add(f nodeFact, n int) {
	w.total += n
	if f.ready {
		w.ready += n
	}
	if f.bad {
		w.bad += n
	}
}

// await waits until something is seen of a workload.
func (o *observer) await(ctx context.Context, workload string, done func(*observed) bool) error {
	for {
		o.mu.Lock()
		w := o.of(workload)
		ok, changed := w.mw != nil && done(w), o.changed
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", workload, context.Cause(ctx))
		case <-changed:
		}
	}
}

// look returns what is known of a workload now.
func (o *observer) look(workload string) observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *o.of(workload)
}

// readyOn says that all nodes are ready with the current template, and that the status
// says so.
func readyOn(nodes int) func(*observed) bool {
	return func(w *observed) bool {
		st := &w.mw.Status
		return st.ObservedGeneration == w.mw.Generation && meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) &&
			int(st.DesiredNodes) == nodes && int(st.UpdatedNodes) == nodes && w.ready == nodes && w.bad == 0
	}
}
