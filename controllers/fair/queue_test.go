// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func of(namespace string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(i)}}
}

// 1,500 objects of one namespace keep another's no longer than what workers do just then: the time
// that it takes is at most twice that without them.
func TestOneNamespaceKeepsNoOtherWaiting(t *testing.T) {
	const workers, look = 4, 100 * time.Millisecond
	took := func(flood int) (passed time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			q := NewQueue("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan time.Time, 1)
			var work sync.WaitGroup
			for range workers {
				work.Go(func() {
					for ctx.Err() == nil {
						item, down := q.Get()
						if down {
							return
						}
						time.Sleep(look)
						if item.Namespace == "victim" {
							done <- time.Now()
						} else {
							q.Add(item) // it is looked at again and again
						}
						q.Done(item)
					}
				})
			}
			for i := range flood {
				q.Add(of("tenant", i))
			}
			time.Sleep(10*time.Second + look/2)
			began := time.Now()
			q.Add(of("victim", 0))
			passed = (<-done).Sub(began)
			cancel()
			q.ShutDown()
			work.Wait()
		})
		return passed
	}
	if alone, beside := took(0), took(1500); beside > 2*alone {
		t.Errorf("an object waits %s beside 1,500 of another namespace, and %s without", beside, alone)
	}
}

// Each namespace has every other turn of two, in its own order.
func TestNamespacesInTurn(t *testing.T) {
	q := NewQueue("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	for i := range 3 {
		q.Add(of("a", i))
	}
	for i := range 2 {
		q.Add(of("b", i))
	}
	q.Add(of("a", 0)) // it waits already
	var got []string
	for q.Len() > 0 {
		item, _ := q.Get()
		got = append(got, item.String())
		q.Done(item)
	}
	if diff := cmp.Diff([]string{"a/0", "b/0", "a/1", "b/1", "a/2"}, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
