// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package metricsauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeAPI knows the tokens prometheus and stranger; prometheus may get /metrics.
type fakeAPI struct {
	tokens, access int
	err            error
}

type fakeTokens struct{ *fakeAPI }

func (f fakeTokens) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	f.tokens++
	if name := r.Spec.Token; name == "prometheus" || name == "stranger" {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name, Groups: []string{"g"}}}
	}
	return r, f.err
}

type fakeAccess struct{ *fakeAPI }

func (f fakeAccess) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	f.access++
	a := r.Spec.NonResourceAttributes
	r.Status.Allowed = r.Spec.User == "prometheus" && len(r.Spec.Groups) == 1 && a.Verb == "get" && a.Path == "/metrics"
	return r, nil
}

// Only whom the API server lets get the path reads metrics, and a failure to ask lets no one pass.
func TestGate(t *testing.T) {
	tests := map[string]struct {
		method, path, header string
		err                  error
		want                 int
	}{
		"may":            {"GET", "/metrics", "Bearer prometheus", nil, 200},
		"another path":   {"GET", "/metrics/resource", "Bearer prometheus", nil, 403},
		"another verb":   {"POST", "/metrics", "Bearer prometheus", nil, 403},
		"may not":        {"GET", "/metrics", "Bearer stranger", nil, 403},
		"made up":        {"GET", "/metrics", "Bearer x", nil, 401},
		"no token":       {"GET", "/metrics", "", nil, 401},
		"empty token":    {"GET", "/metrics", "Bearer ", nil, 401},
		"a password":     {"GET", "/metrics", "Basic cDpw", nil, 401},
		"too long":       {"GET", "/metrics", "Bearer " + strings.Repeat("x", maxToken+1), nil, 401},
		"no API server":  {"GET", "/metrics", "Bearer prometheus", errors.New("away"), 500},
		"lower-case key": {"GET", "/metrics", "bearer prometheus", nil, 200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := &fakeAPI{err: tt.err}
			code, body := ask(newGate(fakeTokens{api}, fakeAccess{api}), tt.method, tt.path, tt.header)
			if code != tt.want || (body == "figures") != (tt.want == 200) {
				t.Errorf("%d %q, want %d", code, body, tt.want)
			}
		})
	}
}

func ask(g *gate, method, path, header string) (int, string) {
	w, req := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	req.Header.Set("Authorization", header)
	g.guard(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") })).ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// An answer holds for a minute, and the API server is not asked about made-up tokens without end.
func TestAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		g := newGate(fakeTokens{api}, fakeAccess{api})
		for range 100 {
			ask(g, "GET", "/metrics", "Bearer prometheus")
		}
		if api.tokens != 1 || api.access != 1 {
			t.Errorf("asked %d and %d times", api.tokens, api.access)
		}
		refused := 0
		for i := range 1000 {
			if code, _ := ask(g, "GET", "/metrics", "Bearer x"+strconv.Itoa(i)); code == http.StatusTooManyRequests {
				refused++
			}
		}
		if code, _ := ask(g, "GET", "/metrics", "Bearer prometheus"); code != http.StatusOK || refused < 900 || api.tokens > 100 {
			t.Errorf("%d, %d refused, asked %d times", code, refused, api.tokens)
		}
		time.Sleep(keptFor)
		before := api.tokens
		if code, _ := ask(g, "GET", "/metrics", "Bearer prometheus"); code != http.StatusOK || api.tokens != before+1 {
			t.Errorf("%d, asked %d times after a minute", code, api.tokens-before)
		}
		if len(g.kept) > mostKept {
			t.Errorf("%d answers are kept", len(g.kept))
		}
	})
}

// Whoever makes up tokens takes nothing from those who have one: not from one that is known, also
// from the same address, and not from a new one from another address.
func TestMadeUpTokensTakeNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		g := newGate(fakeTokens{api}, fakeAccess{api})
		const attacker, other, neighbour = "[2001:db8::66]:1", "192.0.2.7:1", "[2001:db8::67]:1"
		expect := func(when, token, from string, want int) {
			t.Helper()
			if code := askFrom(g, token, from); code != want {
				t.Errorf("%s: %s from %s gets %d, want %d", when, token, from, code, want)
			}
		}
		expect("before", "prometheus", attacker, http.StatusOK)
		for second := range 70 {
			for i := range 100 {
				askFrom(g, fmt.Sprint("made-up-", second, "-", i), attacker)
			}
			time.Sleep(time.Second)
		}
		for i := range 100 {
			askFrom(g, fmt.Sprint("made-up-", i), attacker)
		}
		expect("its answer is over", "prometheus", attacker, http.StatusOK)
		expect("a new token", "stranger", attacker, http.StatusTooManyRequests)
		expect("a new token beside it", "stranger", neighbour, http.StatusTooManyRequests)
		expect("a new token elsewhere", "stranger", other, http.StatusForbidden)

		before := api.tokens
		for i := range 3 * mostAddresses {
			askFrom(g, "made-up", fmt.Sprintf("[2001:db8:0:%x::1]:1", i))
			askFrom(g, fmt.Sprint("more-", i), fmt.Sprintf("[2001:db8:0:%x::1]:1", i))
		}
		if asked := api.tokens - before; asked > reviewBurst || len(g.strangers.addresses) > mostAddresses {
			t.Errorf("many addresses: asked %d times, %d addresses are kept", asked, len(g.strangers.addresses))
		}
		expect("many addresses", "prometheus", other, http.StatusOK)
	})
}

func askFrom(g *gate, token, remote string) int {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.RemoteAddr = remote
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.guard(logr.Discard(), http.NotFoundHandler()).ServeHTTP(w, req)
	if w.Code == http.StatusNotFound { // it has passed
		return http.StatusOK
	}
	return w.Code
}

// Only a loopback address is served without authentication.
func TestOptions(t *testing.T) {
	for address, open := range map[string]bool{
		"0": true, "127.0.0.1:8090": true, "[::1]:8090": true, "localhost:8090": true,
		":8090": false, "0.0.0.0:8090": false, "[::]:8090": false, "192.0.2.1:80": false, "example.com:80": false,
	} {
		if o := Options(address); o.SecureServing == open || (o.FilterProvider == nil) != open || o.BindAddress != address {
			t.Errorf("%s: HTTPS %t, filter %t", address, o.SecureServing, o.FilterProvider != nil)
		}
	}
}
