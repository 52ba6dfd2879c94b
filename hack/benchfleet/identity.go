// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// shimAccount is the service account of shims beside a kubelet.
const shimAccount = "system:serviceaccount:" + localstack.SystemNamespace + ":managedworkload-shim"

// nodeNameKey is what a token that is bound to a node says about it.
const nodeNameKey = "authentication.kubernetes.io/node-name"

type nodeKey struct{}

// asNode has requests made with ctx come from the shim of a node.
func asNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// shimConfig makes each request in the name of the shim of the context's node, so that
// one client serves all nodes and RBAC, policies and fair queuing treat them as shims.
func shimConfig(admin *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1 // each shim would have its own limit
	cfg.UserAgent = "managedworkload-shim"
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return impersonator{next} })
	return cfg
}

type impersonator struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	node, ok := r.Context().Value(nodeKey{}).(string)
	if !ok {
		return i.next.RoundTrip(r) // what serves the bench, not a node
	}
	r = r.Clone(r.Context())
	r.Header.Set(transport.ImpersonateUserHeader, shimAccount)
	for _, group := range []string{"system:serviceaccounts", "system:serviceaccounts:" + localstack.SystemNamespace, "system:authenticated"} {
		r.Header.Add(transport.ImpersonateGroupHeader, group)
	}
	r.Header.Add(transport.ImpersonateUserExtraHeaderPrefix+url.PathEscape(nodeNameKey), node)
	return i.next.RoundTrip(r)
}
