// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endings is an API server that ends each watch after some events.
type endings struct {
	client.WithWatch
	// there is what a list has.
	there []runtime.Object
	// watches are the events of each watch, the next first; from are the resource versions that they began at.
	watches [][]watch.Event
	from    []string
}

func (e *endings) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetResourceVersion("10")
	return meta.SetList(list, e.there)
}

func (e *endings) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	e.from = append(e.from, o.Raw.ResourceVersion)
	w := watch.NewFakeWithChanSize(10, false)
	if len(e.watches) == 0 {
		return w, nil
	}
	for _, event := range e.watches[0] {
		w.Action(event.Type, event.Object)
	}
	e.watches = e.watches[1:]
	w.Stop()
	return w, nil
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// A watch that the API server ends is taken up again where it ended, and no event is missed.
func TestAWatchThatEndsIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &endings{there: []runtime.Object{pod("b", "9")}, watches: [][]watch.Event{
			{{Type: watch.Added, Object: pod("a", "11")}, {Type: watch.Modified, Object: pod("a", "12")}},
			{}, // once more before anything happened
			{{Type: watch.Bookmark, Object: pod("", "15")}},
			{{Type: watch.Error, Object: &metav1.Status{Code: http.StatusInternalServerError}}},
			{{Type: watch.Deleted, Object: pod("a", "16")}},
		}}
		w, err := Watch(t.Context(), server, &corev1.PodList{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		var seen []watch.EventType
		err = AwaitEvent(t.Context(), w, func(e watch.Event) bool {
			seen = append(seen, e.Type)
			return e.Type == watch.Deleted
		})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]watch.EventType{watch.Added, watch.Added, watch.Modified, watch.Deleted}, seen); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if want := []string{"10", "12", "12", "15", "15"}; !slices.Equal(server.from, want) {
			t.Errorf("the watches began at %q, want %q", server.from, want)
		}
	})
}

// What cannot be taken up is an error: its events are gone.
func TestAWatchThatIsTooOldIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &endings{watches: [][]watch.Event{{{Type: watch.Error, Object: &metav1.Status{Code: http.StatusGone, Message: "too old"}}}}}
		w, err := Watch(t.Context(), server, &corev1.PodList{})
		if err != nil {
			t.Fatal(err)
		}
		if err := AwaitEvent(t.Context(), w, func(watch.Event) bool { return true }); err == nil || err.Error() != "too old" {
			t.Errorf("error %v, want too old", err)
		}
	})
}

// The wait ends with its context, and says why.
func TestWaitingForAnEventEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := Watch(ctx, &endings{}, &corev1.PodList{})
		if err != nil {
			t.Fatal(err)
		}
		if err := AwaitEvent(ctx, w, func(watch.Event) bool { return true }); err != context.DeadlineExceeded { //nolint:errorlint // the cause as it is
			t.Errorf("error %v, want the deadline", err)
		}
	})
}
