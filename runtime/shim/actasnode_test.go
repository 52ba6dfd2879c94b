// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

const (
	ofNodeWorkloads = "https://server/apis/managedworkload.dev/v1alpha1/namespaces/ns/nodeworkloads/web/status"
	reviewedAt      = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	yes             = `{"status":{"allowed":true}}`
)

// nodeServer is an API server that answers a question with code and body.
type nodeServer struct {
	code int
	body string
	err  error
	// refuses has it refuse all else to whoever acts as a node.
	refuses bool
	// got are the requests, each with the user that it acts as.
	got []string
}

func (s *nodeServer) RoundTrip(req *http.Request) (*http.Response, error) {
	as := req.Header.Get("Impersonate-User")
	s.got = append(s.got, strings.TrimSpace(req.Method+" "+req.URL.Path+" "+as))
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case strings.HasSuffix(req.URL.Path, reviewedAt):
		if req.Header.Get("Authorization") != "Bearer t" {
			return nil, errors.New("a question without the token")
		}
		answer.StatusCode, answer.Body = s.code, io.NopCloser(strings.NewReader(s.body))
		return answer, s.err
	case s.refuses && as != "":
		answer.StatusCode = http.StatusForbidden
	}
	return answer, nil
}

// take returns the requests since the last call.
func (s *nodeServer) take() []string {
	defer func() { s.got = nil }()
	return s.got
}

// actor is the nodeActor of node n1.
func actor(t *testing.T, server http.RoundTripper) *nodeActor {
	t.Helper()
	a, err := newNodeActor(&rest.Config{Host: "https://server", BearerToken: "t", Transport: server}, "n1", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sendAs(t *testing.T, to http.RoundTripper, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	resp, err := to.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if req.Header.Get("Impersonate-User") != "" {
		t.Error("the caller's request was changed")
	}
}

// A shim asks about NodeWorkloads as its node wherever the API server allows it, and only about these:
// NodeRestriction refuses a node the lease by which a shim shows that it lives.
func TestActsAsItsNode(t *testing.T) {
	const (
		asNode   = "GET /apis/managedworkload.dev/v1alpha1/namespaces/ns/nodeworkloads/web/status system:node:n1"
		asItself = "GET /apis/managedworkload.dev/v1alpha1/namespaces/ns/nodeworkloads/web/status"
		question = "POST " + reviewedAt + " system:node:n1"
	)
	for _, test := range []struct {
		name   string
		server nodeServer
		// first are the requests for one about a NodeWorkload, and later those for another after some time.
		first []string
		after time.Duration
		later []string
	}{
		{"allowed", nodeServer{code: http.StatusCreated, body: yes}, []string{question, asNode}, 59 * time.Minute, []string{asNode}},
		{"allowed, an hour later", nodeServer{code: http.StatusCreated, body: yes}, []string{question, asNode}, time.Hour, []string{question, asNode}},
		{"the gate is off, or no role allows it", nodeServer{code: http.StatusForbidden}, []string{question, asItself}, 9 * time.Minute, []string{asItself}},
		{"not allowed, 10 min later", nodeServer{code: http.StatusForbidden}, []string{question, asItself}, 10 * time.Minute, []string{question, asItself}},
		{"nodes may not report", nodeServer{code: http.StatusCreated, body: `{"status":{}}`}, []string{question, asItself}, time.Minute, []string{asItself}},
		{"too many requests", nodeServer{code: http.StatusTooManyRequests}, []string{question, asItself}, 9 * time.Second, []string{asItself}},
		{"too many requests, 10 s later", nodeServer{code: http.StatusTooManyRequests}, []string{question, asItself}, 10 * time.Second, []string{question, asItself}},
		{"no connection", nodeServer{err: errors.New("refused")}, []string{question, asItself}, time.Second, []string{asItself}},
		{"nonsense", nodeServer{code: http.StatusCreated, body: "<html>"}, []string{question, asItself}, time.Second, []string{asItself}},
		{"refused as the node", nodeServer{code: http.StatusCreated, body: yes, refuses: true}, []string{question, asNode}, 9 * time.Second, []string{asNode}},
		{"refused as the node, 10 s later", nodeServer{code: http.StatusCreated, body: yes, refuses: true}, []string{question, asNode}, 10 * time.Second, []string{question, asNode}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := nodeTransport{actor(t, &test.server), &test.server}
				for _, url := range []string{
					"https://server/apis/coordination.k8s.io/v1/namespaces/system/leases/managedworkload-shim-n1",
					"https://server/api/v1/namespaces/ns/events", "https://server/apis/managedworkload.dev/v1alpha1", "https://server/apis/managedworkload.dev",
				} {
					sendAs(t, to, url)
				}
				for _, got := range test.server.take() {
					if strings.Contains(got, "system:node") {
						t.Errorf("%s: want it as the service account", got)
					}
				}
				sendAs(t, to, ofNodeWorkloads)
				if got := test.server.take(); !slices.Equal(got, test.first) {
					t.Errorf("first: %q, want %q", got, test.first)
				}
				time.Sleep(test.after)
				sendAs(t, to, ofNodeWorkloads)
				if got := test.server.take(); !slices.Equal(got, test.later) {
					t.Errorf("later: %q, want %q", got, test.later)
				}
			})
		})
	}
}

// An API server that does not answer for a while changes nothing for a shim that acts as its node.
func TestActsAsItsNodeWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodeServer{code: http.StatusCreated, body: yes}
		to := nodeTransport{actor(t, server), server}
		sendAs(t, to, ofNodeWorkloads)
		time.Sleep(yesHolds)
		server.err = errors.New("refused")
		server.take()
		sendAs(t, to, ofNodeWorkloads)
		if got := server.take(); len(got) != 2 || !strings.HasSuffix(got[1], " system:node:n1") {
			t.Errorf("%q, want the second as the node", got)
		}
	})
}

// A question that takes long keeps nothing waiting beyond its own end.
func TestWhoWaitsWhetherToActAsTheNodeMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actor(t, &nodeServer{})
		a.turn <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if a.may(ctx) || time.Since(begun) != time.Second {
			t.Errorf("it waited for %s, want 1s and no", time.Since(begun))
		}
	})
}

// Paths of the aggregated API, and of an API server behind a path of its own, are known.
func TestPathsOfOurAPIs(t *testing.T) {
	for _, path := range []string{
		"/apis/subresources.managedworkload.dev/v1alpha1/nodeobjects",
		"/clusters/c1/apis/managedworkload.dev/v1alpha1/nodeworkloads",
		"/apis/subresources.managedworkload.dev/v1alpha1/namespaces/a/nodeworkloads/b",
	} {
		if !ofOurAPIs(path) {
			t.Errorf("%s is not known", path)
		}
	}
}
