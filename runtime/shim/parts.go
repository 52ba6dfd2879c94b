// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// NewPublisher returns the shim's publisher of statuses, for simulated nodes: it reads the
// latest object through cached, after a conflict through live, and writes with writer.
func NewPublisher(cached, live client.Reader, writer client.Client) podworker.Publisher {
	return newPublisher(cached, live, writer)
}

// KeepLease makes and renews the Lease of the shim of a node in a namespace until ctx is
// done, as the shim does, for simulated nodes.
func KeepLease(ctx context.Context, api client.Client, namespace, node string) {
	o := Options{Shared: options.Shared{Namespace: namespace}, NodeName: node}
	_ = shimLease(api, nil, o).keep(ctx) // it only ends with ctx
}
