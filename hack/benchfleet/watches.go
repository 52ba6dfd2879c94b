// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// watchEachNode opens the watch that each shim would have and throws away what it brings:
// the API server compares each change with each of these watches.
func (f *fleet) watchEachNode(ctx context.Context, cfg *rest.Config) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		progress("No watches for the nodes: %v", err)
		return
	}
	httpClient.Timeout = 0
	for i := range f.options.nodes {
		query := url.Values{
			"watch": {"true"}, "fieldSelector": {"spec.nodeName=" + nodeName(i)}, "allowWatchBookmarks": {"true"},
			"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
		}
		address := cfg.Host + "/apis/" + v1alpha1.GroupVersion.String() + "/nodeworkloads?" + query.Encode()
		go func() {
			for pause(ctx, time.Second) == nil { // it ends with ctx, and nothing waits for it
				_ = drain(asNode(ctx, nodeName(i)), httpClient, address)
			}
		}()
	}
}

// drain reads a watch until it ends.
func drain(ctx context.Context, c *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
