// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// Since when a NodeWorkload is ready goes by the manager's clock: a node's may be years off.
func TestReadySinceGoesByTheManagersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		index := newIndex()
		nw := managertest.NodeWorkload("n1", "mw")
		report := func(status metav1.ConditionStatus, at time.Time) *Share {
			nw.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(at)}}
			index.Observe(nw)
			return index.Get(client.ObjectKeyFromObject(nw))
		}
		if got := report(metav1.ConditionTrue, started.Add(365*24*time.Hour)).ReadySince; !got.Equal(started) {
			t.Errorf("seen first with a clock that is ahead: %s, want %s", got, started)
		}
		time.Sleep(time.Minute)
		if got := report(metav1.ConditionTrue, started.Add(365*24*time.Hour)).ReadySince; !got.Equal(started) {
			t.Errorf("reported again: %s, want %s", got, started)
		}
		index.Reset(&v1alpha1.NodeWorkloadList{Items: []v1alpha1.NodeWorkload{*nw}})
		if got := index.Read(nw).ReadySince; !got.Equal(started) {
			t.Errorf("read past the index: %s, want %s", got, started)
		}
		report(metav1.ConditionFalse, started)
		time.Sleep(time.Minute)
		behind := nw.DeepCopy()
		behind.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(started.Add(-time.Hour))}}
		if got := index.Read(behind).ReadySince; !got.Equal(time.Now()) {
			t.Errorf("read as ready where the index knows that it was not: %s, want %s", got, time.Now())
		}
		if got := report(metav1.ConditionTrue, started.Add(-365*24*time.Hour)).ReadySince; !got.Equal(time.Now()) {
			t.Errorf("ready again with a clock that is behind: %s, want %s", got, time.Now())
		}
	})
}

// Since when a NodeWorkload waits, or is not ready, goes by the same clock, and stays while it
// does.
func TestLateSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := newIndex()
		nw := managertest.NodeWorkload("n1", "mw")
		report := func(kind string, status metav1.ConditionStatus, at time.Time) time.Time {
			meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)})
			index.Observe(nw)
			return index.Get(client.ObjectKeyFromObject(nw)).LateSince
		}
		ahead := time.Now().Add(365 * 24 * time.Hour)
		if got := report(v1alpha1.ConditionReady, metav1.ConditionTrue, ahead); !got.IsZero() {
			t.Errorf("ready: late since %s", got)
		}
		began := time.Now()
		if got := report(v1alpha1.ConditionReady, metav1.ConditionFalse, ahead.Add(time.Second)); !got.Equal(began) {
			t.Errorf("not ready, with a clock that is ahead: since %s, want %s", got, began)
		}
		time.Sleep(time.Minute)
		index.Reset(&v1alpha1.NodeWorkloadList{Items: []v1alpha1.NodeWorkload{*nw}})
		if got := index.Read(nw).LateSince; !got.Equal(began) {
			t.Errorf("listed and read again: since %s, want %s", got, began)
		}
		waits := time.Now()
		if got := report(v1alpha1.ConditionUpdateWaiting, metav1.ConditionTrue, ahead); !got.Equal(waits) {
			t.Errorf("waiting for an image: since %s, want %s", got, waits)
		}
		report(v1alpha1.ConditionUpdateWaiting, metav1.ConditionFalse, ahead)
		if got := report(v1alpha1.ConditionReady, metav1.ConditionTrue, ahead); !got.IsZero() {
			t.Errorf("ready again: late since %s", got)
		}
	})
}
