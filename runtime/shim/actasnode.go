// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
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
)

// nodeActor has a shim ask this project's APIs as the user of its node, system:node:NAME, and not as
// the service account that the shims of all nodes share: API Priority and Fairness tells callers
// apart by user, so that a node that asks without end keeps no other waiting. The API server allows
// it for the node into which the token is bound (constrained impersonation, KEP-5284). Where it does
// not, or nodes may not report, requests are the service account's.
type nodeActor struct {
	user string
	log  logr.Logger
	// reviews asks as the node.
	reviews typedauthorizationv1.SelfSubjectAccessReviewsGetter
	// turn is held by the one who asks.
	turn chan struct{}

	mu           sync.Mutex
	acts, said   bool
	asked, until time.Time
}

// actAsNode has a configuration's requests act as a node, and says in a metric whether they do. A configuration
// whose kubeconfig impersonates a user is left as it is. The error is one of the configuration.
func actAsNode(cfg *rest.Config, node string, reg prometheus.Registerer, log logr.Logger) error {
	a, err := newNodeActor(cfg, node, log)
	if err != nil {
		return err
	}
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
	return nil
}

func newNodeActor(cfg *rest.Config, node string, log logr.Logger) (*nodeActor, error) {
	a := &nodeActor{user: "system:node:" + node, log: log, turn: make(chan struct{}, 1)}
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: a.user}
	var err error
	if a.reviews, err = typedauthorizationv1.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make the client that asks whether the shim may act as its node: %w", err)
	}
	return a, nil
}

// nodeTransport is one way to the API server.
type nodeTransport struct {
	*nodeActor

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t nodeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !ofOurAPIs(req.URL.Path) || !t.may(req.Context()) {
		return t.next.RoundTrip(req)
	}
	req = utilnet.CloneRequest(req)
	req.Header.Set(authenticationv1.ImpersonateUserHeader, t.user)
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		t.doubt()
	}
	return resp, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t nodeTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// ofOurAPIs reports whether a path is of a resource of this project's APIs.
func ofOurAPIs(path string) bool {
	for _, group := range []string{v1alpha1.GroupVersion.Group, subresources.GroupVersion.Group} {
		_, after, found := strings.Cut(path, "/apis/"+group+"/")
		if _, resource, _ := strings.Cut(after, "/"); found && resource != "" {
			return true
		}
	}
	return false
}

// known returns whether requests are made as the node, and whether that answer is still valid.
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

// may reports whether a request is made as the node. Without a valid answer it asks the API server
// first; other requests wait for that.
func (a *nodeActor) may(ctx context.Context) bool {
	if acts, holds := a.known(); holds {
		return acts
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false
	}
	if acts, holds := a.known(); holds {
		return acts
	}
	return a.learn(a.ask(ctx))
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

// ask asks, as the node, whether it may report: one answer says both whether the shim may act as it, and
// whether it has the rights of a shim then.
func (a *nodeActor) ask(ctx context.Context) (may bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, mayActTimeout)
	defer cancel()
	review, err := a.reviews.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Resource: "nodeworkloads", Verb: "report",
		}},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err): // it may not act as the node
		return false, nil
	case err != nil:
		return false, fmt.Errorf("review whether the node may report: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
