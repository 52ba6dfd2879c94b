// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// yesHolds, noHolds and silenceHolds are how long an answer of the API server holds, and
	// none. While requests are refused, a yes holds for doubtAfter only.
	yesHolds, noHolds, silenceHolds, doubtAfter = time.Hour, 10 * time.Minute, 10 * time.Second, 10 * time.Second
	// mayActTimeout bounds one question.
	mayActTimeout = 5 * time.Second
	// mostOfReview bounds what is read of an answer, in bytes.
	mostOfReview = 1 << 20
)

// nodeActor has a shim ask this project's APIs as the user of its node, system:node:NAME, and not as
// the service account that the shims of all nodes share: API Priority and Fairness tells callers
// apart by user, so that a node that asks without end keeps no other waiting. The API server allows
// it for the node into which the token is bound (constrained impersonation, KEP-5284). Where it does
// not, or nodes may not report, requests are the service account's.
type nodeActor struct {
	user string
	log  logr.Logger
	// turn is held by the one who asks.
	turn chan struct{}

	mu           sync.Mutex
	acts, said   bool
	asked, until time.Time
}

// actAsNode has a configuration's requests act as a node, and says in a metric whether they do. One
// whose kubeconfig impersonates a user is left as it is.
func actAsNode(cfg *rest.Config, node string, reg prometheus.Registerer, log logr.Logger) {
	a := newNodeActor(node, log)
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "managedworkload_shim_acts_as_node",
		Help: "1 while requests about NodeWorkloads are made as the user of the node, 0 while as the service account of all shims.",
	}, func() float64 {
		if acts, _ := a.known(); acts {
			return 1
		}
		return 0
	}))
	if cfg.Impersonate.UserName == "" {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return nodeTransport{a, next} })
	}
}

func newNodeActor(node string, log logr.Logger) *nodeActor {
	return &nodeActor{user: "system:node:" + node, log: log, turn: make(chan struct{}, 1)}
}

// nodeTransport is one way to the API server.
type nodeTransport struct {
	*nodeActor

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t nodeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	prefix, ours := ofOurAPIs(req.URL.Path)
	if !ours || !t.may(req, prefix) {
		return t.next.RoundTrip(req)
	}
	resp, err := t.next.RoundTrip(t.as(req))
	if err == nil && resp.StatusCode == http.StatusForbidden {
		t.doubt()
	}
	return resp, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t nodeTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// ofOurAPIs reports whether a path is of a resource of this project's APIs, and what comes before
// the paths of the API server.
func ofOurAPIs(path string) (prefix string, ours bool) {
	for _, group := range []string{v1alpha1.GroupVersion.Group, subresources.GroupVersion.Group} {
		before, after, found := strings.Cut(path, "/apis/"+group+"/")
		if _, resource, _ := strings.Cut(after, "/"); found && resource != "" {
			return before, true
		}
	}
	return "", false
}

// as is a request by the node.
func (a *nodeActor) as(req *http.Request) *http.Request {
	req = utilnet.CloneRequest(req)
	req.Header.Set(authenticationv1.ImpersonateUserHeader, a.user)
	return req
}

// known is whether requests act as the node, and whether that holds still.
func (a *nodeActor) known() (acts, holds bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.acts, time.Now().Before(a.until)
}

// doubt has the API server asked again: a request as the node was refused.
func (a *nodeActor) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until := a.asked.Add(doubtAfter); until.Before(a.until) {
		a.until = until
	}
}

// may reports whether a request is made as the node. Where no answer holds, the API server is asked
// first; other requests wait for that.
func (t nodeTransport) may(req *http.Request, prefix string) bool {
	if acts, holds := t.known(); holds {
		return acts
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-req.Context().Done():
		return false
	}
	acts, holds := t.known()
	if holds {
		return acts
	}
	may, err := t.ask(req, prefix)
	return t.learn(may, err)
}

// learn takes an answer, and reports whether requests are made as the node. Without an answer that
// stays as it was.
func (a *nodeActor) learn(may bool, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = time.Now()
	if err != nil {
		a.until = a.asked.Add(silenceHolds)
		a.log.V(1).Info("Could not ask whether the shim may act as its node", "error", err.Error())
		return a.acts
	}
	if a.acts != may || !a.said {
		a.log.Info("Requests about NodeWorkloads are made as the node, or as the service account of all shims", "node", may, "user", a.user)
	}
	a.acts, a.said, a.until = may, true, a.asked.Add(noHolds)
	if may {
		a.until = a.asked.Add(yesHolds)
	}
	return may
}

// ask asks, as the node, whether it may report: so both are known, whether the shim may act as it and
// whether it has the rights of a shim then. The answer to who may not act as it is 403.
func (t nodeTransport) ask(req *http.Request, prefix string) (may bool, err error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Resource: "nodeworkloads", Verb: "report",
		}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, fmt.Errorf("encode the review: %w", err)
	}
	ctx, cancel := context.WithTimeout(req.Context(), mayActTimeout)
	defer cancel()
	question := req.Clone(ctx)
	question.Method, question.URL.Path, question.URL.RawPath, question.URL.RawQuery = http.MethodPost, prefix+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", ""
	question.Body, question.GetBody, question.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	// Outer transports have said whose token it is and which program asks.
	question.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	for _, header := range []string{"Authorization", "User-Agent"} {
		question.Header[header] = req.Header[header]
	}
	resp, err := t.next.RoundTrip(t.as(question))
	if err != nil {
		return false, fmt.Errorf("review whether the node may report: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostOfReview))
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("read the review: %w", err)
	case resp.StatusCode == http.StatusForbidden:
		return false, nil
	case resp.StatusCode != http.StatusCreated:
		return false, fmt.Errorf("review whether the node may report: %s", resp.Status)
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return false, fmt.Errorf("decode the review: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
