// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// response takes what a watch sends, each part after a while. blocked, it takes nothing, until the deadline. As with
// HTTP/2, a deadline that passes ends it, even if nothing is being written.
type response struct {
	header  http.Header
	blocked bool
	slow    time.Duration

	mu       sync.Mutex
	reset    bool
	code     int
	content  bytes.Buffer
	deadline time.Time
}

func (r *response) Header() http.Header  { return r.header }
func (r *response) WriteHeader(code int) { r.code = code }
func (r *response) Flush()               {}

func (r *response) SetWriteDeadline(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	r.deadline = at
	return nil
}

func (r *response) expire() {
	r.reset = r.reset || !r.deadline.IsZero() && time.Now().After(r.deadline)
}

func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blocked {
		time.Sleep(time.Until(r.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(r.slow)
	if r.expire(); r.reset {
		return 0, os.ErrDeadlineExceeded
	}
	return r.content.Write(p)
}

// watching serves the watch of node a until it ends, and returns how long it lasted.
func (c *cluster) watching(ctx context.Context, t *testing.T, h http.Handler, w *response, query string) (lasted time.Duration) {
	t.Helper()
	began := time.Now()
	defer func() {
		if r := recover(); r != nil && r != any(http.ErrAbortHandler) {
			t.Error(r)
		}
		lasted = time.Since(began)
	}()
	h.ServeHTTP(w, as(get(t, watchPath("a")+query).WithContext(ctx), shim, "a", "uid-a"))
	return 0
}

func newResponse() *response { return &response{header: http.Header{}} }

// A watch sends what there is, the bookmark, and what changes, and ends after an hour or so.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		go func() {
			c.events.send(t.Context(), watch.Added, object("one", "1"))
			c.events.send(t.Context(), watch.Bookmark, bookmark())
			time.Sleep(time.Minute)
			c.events.send(t.Context(), watch.Modified, object("one", "2"))
			c.events.send(t.Context(), watch.Deleted, object("one", ""))
		}()
		w := newResponse()
		lasted := c.watching(t.Context(), t, c.serve(t), w, "")
		if lasted < shortest || lasted > shortest+jitter {
			t.Errorf("lasted %v", lasted)
		}
		var got []string
		for _, e := range read(t, &w.content) {
			got = append(got, strings.Join([]string{string(e.Type), e.Object.APIVersion, e.Object.Kind, e.Object.Name, string(e.Object.Data["key"]), e.Object.Annotations[metav1.InitialEventsAnnotationKey]}, " "))
		}
		const kind = " subresources.managedworkload.dev/v1alpha1 NodeObject "
		want := []string{"ADDED" + kind + "secret.one 1 ", "BOOKMARK" + kind + "  true", "MODIFIED" + kind + "secret.one 2 ", "DELETED" + kind + "secret.one  "}
		if diff := cmp.Diff(want, got); diff != "" || w.code != http.StatusOK || w.header.Get("Content-Type") != "application/json" {
			t.Errorf("answer %d %v, events (-want +got):\n%s", w.code, w.header, diff)
		}
		if len(c.watched) != 1 || c.watched[0] != "a" {
			t.Errorf("the objects of %q were asked for", c.watched)
		}
	})
}

// A shim may ask for a shorter watch, and leave.
func TestWatchEndsEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := newResponse()
		if lasted := c.watching(t.Context(), t, c.serve(t), w, "&timeoutSeconds=90"); lasted != 90*time.Second || w.content.Len() != 0 {
			t.Errorf("lasted %v, events %s", lasted, &w.content)
		}
		c, w = newCluster(), newResponse()
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if lasted := c.watching(ctx, t, c.serve(t), w, ""); lasted != time.Second || w.content.Len() != 0 {
			t.Errorf("lasted %v, events %s", lasted, &w.content)
		}
	})
}

// Who may watch no more loses the watch within 30 s, whatever else happens on it, and learns why,
// unless that is in the middle of an event: he gets no more of it, and nothing after it.
func TestWatchEndsWithTheRight(t *testing.T) {
	tests := map[string]struct {
		change func(*cluster)
		code   int
		words  string
	}{
		"the right was revoked":          {func(c *cluster) { c.reports = nil }, http.StatusForbidden, "lacks the verb report"},
		"the node was deleted":           {func(c *cluster) { c.known = nil }, http.StatusForbidden, "does not exist"},
		"another node has its name":      {func(c *cluster) { c.known["a"] = node("a", "uid-new") }, http.StatusForbidden, "bound to an earlier node a"},
		"the API server does not answer": {func(c *cluster) { c.down = errors.New("no answer") }, http.StatusServiceUnavailable, "no answer"},
	}
	for name, tc := range tests {
		for _, busy := range []string{"idle", "busy", "blocked", "slow"} {
			t.Run(name+", "+busy, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					w := newResponse()
					var revoked time.Time
					var feeding sync.WaitGroup
					feeding.Go(func() {
						time.Sleep(time.Hour/2 + 25*time.Millisecond) // no event is sent in the moment of a check
						w.mu.Lock()
						w.blocked = busy == "blocked"
						if busy == "slow" {
							w.slow = time.Second
						}
						w.mu.Unlock()
						revoked = time.Now()
						c.do(func() { tc.change(c) })
						if busy == "slow" {
							c.events.send(ctx, watch.Modified, object("one", strings.Repeat("x", 60*chunk)))
							return
						}
						for ; busy != "idle" && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
							c.events.send(ctx, watch.Modified, object("one", strings.Repeat("x", 2*chunk)))
						}
					})
					c.watching(ctx, t, c.serve(t), w, "")
					ended := time.Now()
					cancel()
					feeding.Wait()
					if late := ended.Sub(revoked); revoked.IsZero() || late > 30*time.Second {
						t.Errorf("ended %v after the change", late)
					}
					if busy == "blocked" {
						return // it learns nothing
					}
					if content := w.content.String(); busy == "slow" {
						if content == "" || len(content) > 60*chunk || strings.Contains(content, "\n") {
							t.Errorf("%d bytes of an event, which end in %q", len(content), content[max(0, len(content)-100):])
						}
						return
					}
					events := read(t, &w.content)
					if len(events) == 0 {
						t.Fatal("the watch ended without a word")
					}
					last := events[len(events)-1]
					if last.Type != watch.Error || last.Object.Code != tc.code || !strings.Contains(last.Object.Message, tc.words) {
						t.Errorf("last event %s %d %q, want %d %q", last.Type, last.Object.Code, last.Object.Message, tc.code, tc.words)
					}
				})
			})
		}
	}
}

// An API server that is away for a moment ends no watch, and neither does a cache that lags behind.
func TestWatchOutlivesAMoment(t *testing.T) {
	for name, change := range map[string]func(c *cluster, broken bool){
		"the API server": func(c *cluster, broken bool) {
			if c.down = nil; broken {
				c.down = errors.New("no answer")
			}
		},
		"the cache": func(c *cluster, broken bool) { c.lagging = broken },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				go func() {
					time.Sleep(45 * time.Second)
					c.do(func() { change(c, true) })
					time.Sleep(10 * time.Second)
					c.do(func() { change(c, false) })
				}()
				w := newResponse()
				if lasted := c.watching(t.Context(), t, c.serve(t), w, ""); lasted < shortest {
					t.Errorf("lasted %v: %s", lasted, &w.content)
				}
			})
		})
	}
}

// A caller that reads nothing any more loses the watch.
func TestWatchOfWhoReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := newResponse()
		w.blocked = true
		go func() {
			time.Sleep(time.Minute)
			c.events.send(t.Context(), watch.Added, object("one", "1"))
		}()
		if lasted := c.watching(t.Context(), t, c.serve(t), w, ""); lasted != time.Minute+chunkTimeout {
			t.Errorf("lasted %v", lasted)
		}
	})
}
