// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// The owner of a namespace may make as many service accounts and tokens as he likes, and bind
// them to any Node. Being refused costs him, and no shim: neither one that begins nor one
// whose turn it is to be asked about again.
func TestRefusalsCostTheAsker(t *testing.T) {
	tests := map[string]func(i int) (user, node string){
		"many tokens of one account":    func(int) (string, string) { return "system:serviceaccount:tenant:a", "a" },
		"many accounts":                 func(i int) (string, string) { return fmt.Sprint("system:serviceaccount:tenant:", i), "a" },
		"tokens of nodes that are gone": func(i int) (string, string) { return "system:serviceaccount:tenant:a", fmt.Sprint("gone-", i) },
		"one user":                      func(int) (string, string) { return "mallory", "a" },
	}
	for name, flooder := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := withTokens()
				limit := flowcontrol.NewTokenBucketRateLimiter(100, 40)
				c.slow = func() {
					limit.Accept()
					time.Sleep(50 * time.Millisecond)
				}
				h := c.serve(t)
				took := func() time.Duration {
					began := time.Now()
					w := httptest.NewRecorder()
					h.ServeHTTP(w, as(post(t, tokenPath("ns", "web-b"), "{}"), shim, "b", "uid-b"))
					if w.Code != http.StatusCreated {
						t.Errorf("the shim got %d %s", w.Code, w.Body)
					}
					return time.Since(began)
				}
				alone := took()
				time.Sleep(time.Minute)
				before := c.requests.Load()
				var asking sync.WaitGroup
				for i := range 700 {
					asking.Go(func() {
						who, where := flooder(i)
						for range 5 {
							w := httptest.NewRecorder()
							h.ServeHTTP(w, as(post(t, tokenPath("ns", "web-a"), "{}"), who, where, "uid-"+where))
							if w.Code != http.StatusForbidden && w.Code != http.StatusTooManyRequests {
								t.Errorf("%s got %d", who, w.Code)
							}
						}
					})
				}
				synctest.Wait()
				if beside := took(); beside > 2*alone {
					t.Errorf("beside the flood a shim waits %s, without it %s", beside, alone)
				}
				asking.Wait()
				if n := c.requests.Load() - before; n > 2*questionsOf+1 {
					t.Errorf("3500 requests cost the API server %d", n)
				}
			})
		})
	}
}

// A shim that gets its right late is let in soon.
func TestARefusalIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		h := c.serve(t)
		c.do(func() { c.reports[shim] = false })
		code := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, as(post(t, tokenPath("ns", "web-a"), "{}"), shim, "a", "uid-a"))
			return w.Code
		}
		if got := code(); got != http.StatusForbidden {
			t.Errorf("without the right: %d", got)
		}
		c.do(func() { c.reports[shim] = true })
		time.Sleep(30 * time.Second)
		if got := code(); got != http.StatusCreated {
			t.Errorf("with the right: %d", got)
		}
	})
}
