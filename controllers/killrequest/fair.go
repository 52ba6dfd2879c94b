// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fair holds requests that are to be looked at, namespace by namespace in turn: a namespace that
// has many keeps no other waiting. It has no lock: a workqueue has one.
type fair struct {
	waiting map[string][]reconcile.Request
	// turns are the namespaces that have any, the next first.
	turns []string
	all   int
}

var _ workqueue.Queue[reconcile.Request] = (*fair)(nil)

// newQueue is a queue of a controller that is fair between namespaces.
func newQueue(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) requestQueue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
				Name: controller, Queue: &fair{waiting: map[string][]reconcile.Request{}},
			}),
		}),
	})
}

// Touch implements workqueue.Queue: what waits already keeps its place.
func (*fair) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (f *fair) Push(item reconcile.Request) {
	if len(f.waiting[item.Namespace]) == 0 {
		f.turns = append(f.turns, item.Namespace)
	}
	f.waiting[item.Namespace] = append(f.waiting[item.Namespace], item)
	f.all++
}

// Len implements workqueue.Queue.
func (f *fair) Len() int { return f.all }

// Pop implements workqueue.Queue: the namespace whose turn it was goes to the end.
func (f *fair) Pop() reconcile.Request {
	namespace := f.turns[0]
	f.turns = f.turns[1:]
	of := f.waiting[namespace]
	item := of[0]
	of[0] = reconcile.Request{} // the array lives on
	if of = of[1:]; len(of) > 0 {
		f.waiting[namespace] = of
		f.turns = append(f.turns, namespace)
	} else {
		delete(f.waiting, namespace)
	}
	f.all--
	return item
}
