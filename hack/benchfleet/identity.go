// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// shimAccount is the service account of shims beside a kubelet.
const shimAccount = "system:serviceaccount:" + localstack.SystemNamespace + ":managedworkload-shim"

// What a token that is bound to a node says about it.
const (
	nodeNameKey = "authentication.kubernetes.io/node-name"
	nodeUIDKey  = "authentication.kubernetes.io/node-uid"
)

type nodeKey struct{}

type boundTo struct {
	node string
	uid  types.UID
}

// asNode has requests made with ctx come from the shim of a node.
func asNode(ctx context.Context, node string) context.Context {
	return asBound(ctx, node, "")
}

// asBound has them come with a token that names the UID of the Node too.
func asBound(ctx context.Context, node string, uid types.UID) context.Context {
	return context.WithValue(ctx, nodeKey{}, boundTo{node, uid})
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
	bound, ok := r.Context().Value(nodeKey{}).(boundTo)
	if !ok {
		return i.next.RoundTrip(r) // what serves the bench, not a node
	}
	r = r.Clone(r.Context())
	r.Header.Set(transport.ImpersonateUserHeader, shimAccount)
	for _, group := range []string{"system:serviceaccounts", "system:serviceaccounts:" + localstack.SystemNamespace, "system:authenticated"} {
		r.Header.Add(transport.ImpersonateGroupHeader, group)
	}
	r.Header.Add(transport.ImpersonateUserExtraHeaderPrefix+url.PathEscape(nodeNameKey), bound.node)
	if bound.uid != "" {
		r.Header.Add(transport.ImpersonateUserExtraHeaderPrefix+url.PathEscape(nodeUIDKey), string(bound.uid))
	}
	return i.next.RoundTrip(r)
}
