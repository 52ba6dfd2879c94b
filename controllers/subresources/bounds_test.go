// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A node that asks for much at the same time takes a few requests to the API server, and has to
// come back; another node is answered meanwhile. What gets no answer ends.
func TestOneNodeKeepsNoOtherWaiting(t *testing.T) {
	tests := map[string]struct {
		ask  func(t *testing.T, node string) *http.Request
		most int
	}{
		"watches": {func(t *testing.T, node string) *http.Request { return get(t, watchPath(node)+"&timeoutSeconds=1") }, openingsOfNode},
		"tokens":  {func(t *testing.T, node string) *http.Request { return post(t, tokenPath("ns", "web-"+node), "{}") }, tokensOfNode},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const requests = 20
				c := withTokens()
				c.lagging = true // so that Nodes are asked for
				c.silent = "a"
				h := c.serve(t)
				var asking sync.WaitGroup
				codes := make(chan int, requests)
				for range requests {
					asking.Go(func() {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, as(tc.ask(t, "a"), shim, "a", "uid-a"))
						codes <- w.Code
					})
				}
				synctest.Wait()
				if n := int(c.unanswered.Load()); n != tc.most || len(codes) != requests-n {
					t.Errorf("%d requests to the API server, %d refused", n, len(codes))
				}
				for range len(codes) {
					if code := <-codes; code != http.StatusTooManyRequests {
						t.Errorf("answer %d", code)
					}
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, as(tc.ask(t, "b"), shim, "b", "uid-b"))
				if w.Code >= http.StatusBadRequest {
					t.Errorf("node b got %d %s", w.Code, w.Body)
				}
				began := time.Now()
				asking.Wait()
				if lasted := time.Since(began); lasted > time.Minute/2 {
					t.Errorf("waited %v for the API server", lasted)
				}
				c.silent = ""
				w = httptest.NewRecorder()
				h.ServeHTTP(w, as(tc.ask(t, "a"), shim, "a", "uid-a"))
				if w.Code >= http.StatusBadRequest {
					t.Errorf("afterwards node a got %d %s", w.Code, w.Body)
				}
			})
		})
	}
}

// A request that is refused by what is known costs no request to the API server.
func TestRefusedForNothing(t *testing.T) {
	c := withTokens()
	h := c.serve(t)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, as(post(t, tokenPath("ns", "web-a"), "{}"), shim, "a", "uid-a")); w.Code != http.StatusCreated {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	before := c.requests.Load()
	for _, req := range []*http.Request{
		post(t, tokenPath("ns", "web-b"), "{}"), post(t, tokenPath("ns", "web-a"), `{"spec":{"audiences":["bank"]}}`), get(t, watchPath("b")),
	} {
		if code, status := answer(t, h, as(req, shim, "a", "uid-a")); code != http.StatusForbidden {
			t.Errorf("answer %d %s", code, status.Message)
		}
	}
	if n := c.requests.Load() - before; n != 0 {
		t.Errorf("%d requests to the API server", n)
	}
}

// A user whose token is bound to a node takes no place of its shim.
func TestPlacesOfAnotherUser(t *testing.T) {
	p := newBounds().openings
	other, own := &caller{user: named(editor), node: "a"}, &caller{user: named(shim), node: "a"}
	for range openingsOfNode {
		if _, err := p.take(other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.take(other); err == nil {
		t.Error("no bound")
	}
	if _, err := p.take(own); err != nil {
		t.Error(err)
	}
}
