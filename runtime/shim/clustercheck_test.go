// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// An API server that hangs delays nothing that comes from files: static workloads start as soon as the runtime
// answers, and are looked at as often as ever. What comes from the API server waits until the cluster is known.
func TestStaticWorkloadsDoNotWaitForAnAPIServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		hangs.Store(true)
		f := newKeeper(t, 0)
		f.cluster.reader = interceptor.NewClient(f.api.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if hangs.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return c.Get(ctx, key, o, opts...)
		}})
		r, pool := &countedLists{}, &fakeWorkers{}
		o := overseerOf(f, r, pool)
		runOverseer(t, o)
		synctest.Wait()
		if got := pool.currentStatic(); !got.OK {
			t.Errorf("at the start: usable by static workloads: %+v", got)
		}
		time.Sleep(time.Minute)
		if got := r.lists.Load(); got < 55 || got > 65 {
			t.Errorf("%d lists in a minute, want one each %s", got, relistBlind)
		}
		if got := pool.current(); got != (podworker.Usable{}) {
			t.Errorf("the cluster is not known, and its workloads may start: %+v", got)
		}
		hangs.Store(false)
		time.Sleep(relistBlind + clusterTimeout)
		if got := pool.current(); !got.OK {
			t.Errorf("once the API server answers: %+v", got)
		}
		if err := o.check.progress.check(nil); err != nil {
			t.Error(err)
		}
	})
}

// What asks the API server asks again after a panic, and counts as stuck when each time panics.
func TestQuestionsToTheAPIServerSurviveAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newKeeper(t, 0)
		var panics atomic.Bool
		panics.Store(true)
		f.synced = func() bool {
			if panics.Load() {
				panic("boom")
			}
			return true
		}
		r, pool := &fakeCRI{events: true}, &fakeWorkers{}
		o := overseerOf(f, r, pool)
		runOverseer(t, o)
		time.Sleep(2 * stuckAfter)
		if o.check.progress.check(nil) == nil || o.progress.check(nil) != nil {
			t.Errorf("stuck: what asks %v, what looks %v", o.check.progress.check(nil), o.progress.check(nil))
		}
		panics.Store(false)
		time.Sleep(2 * relistForeign)
		if err := o.check.progress.check(nil); err != nil || pool.current().Reason != v1alpha1.ReasonRuntimeReady {
			t.Errorf("afterwards: error %v, usable %+v", err, pool.current())
		}
	})
}
