// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// All accounts of a namespace may read usage as often at the same time as one person; others are answered meanwhile.
func TestReadsOfUsageAreBounded(t *testing.T) {
	h := withTokens().handler()
	h.peers.own = func() ([]net.Addr, error) { return nil, nil }
	routes := h.routes(front(t))
	read := func(user, path string) int {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, as(get(t, pathVersion+path), user, "", ""))
		return w.Code
	}
	var last func()
	for range readsOfOrigin {
		done, err := h.bounds.reads.enter(place{user: "namespace tenant"}, "them")
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	const tenant = "system:serviceaccount:tenant:reader-9"
	for _, path := range []string{"/namespaces/tenant/workloadusages", "/namespaces/tenant/workloadusages/web", "/workloadusages", "/nodeusages", "/nodeusages/a"} {
		if code := read(tenant, path); code != http.StatusTooManyRequests {
			t.Errorf("%s of an account of a namespace that reads much: %d, want 429", path, code)
		}
	}
	if code := read("jane", "/workloadusages"); code != http.StatusOK {
		t.Errorf("of another: %d, want 200", code)
	}
	last()
	if code := read(tenant, "/workloadusages"); code != http.StatusOK {
		t.Errorf("after one of them was answered: %d, want 200", code)
	}
}

// Many reads ask the API server once which other replicas there are.
func TestReadsAskOnceForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		h := withTokens().handler()
		lists := 0
		h.peers.reader = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, ok := list.(*discoveryv1.EndpointSliceList); ok {
					lists++
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		routes := h.routes(front(t))
		for range 20 {
			readUsages(t, routes, "/workloadusages")
		}
		if lists != 1 {
			t.Errorf("the EndpointSlices were listed %d times, want once", lists)
		}
	})
}
