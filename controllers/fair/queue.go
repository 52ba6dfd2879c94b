// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns holds what is to be looked at, namespace by namespace in turn: a namespace that
// has many objects keeps no other waiting. It has no lock: a workqueue has one.
type turns struct {
	waiting map[string][]reconcile.Request
	// next are the namespaces that have any, the next first.
	next []string
	all  int
}

var _ workqueue.Queue[reconcile.Request] = (*turns)(nil)

// NewQueue returns a queue of a controller that is fair between namespaces.
func NewQueue(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
				Name: controller, Queue: &turns{waiting: map[string][]reconcile.Request{}},
			}),
		}),
	})
}

// Touch implements workqueue.Queue: what waits already keeps its place.
func (*turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (t *turns) Push(item reconcile.Request) {
	if len(t.waiting[item.Namespace]) == 0 {
		t.next = append(t.next, item.Namespace)
	}
	t.waiting[item.Namespace] = append(t.waiting[item.Namespace], item)
	t.all++
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.all }

// Pop implements workqueue.Queue: the namespace whose turn it was goes to the end.
func (t *turns) Pop() reconcile.Request {
	namespace := t.next[0]
	t.next = t.next[1:]
	of := t.waiting[namespace]
	item := of[0]
	of[0] = reconcile.Request{} // the array lives on
	if of = of[1:]; len(of) > 0 {
		t.waiting[namespace] = of
		t.next = append(t.next, namespace)
	} else {
		delete(t.waiting, namespace)
	}
	t.all--
	return item
}
