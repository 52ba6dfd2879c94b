// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/managedworkload/managedworkload/api/objects"
)

// Objects has what NodeWorkloads refer to.
type Objects interface {
	// Watch sends NodeObjects: first each that NodeWorkloads of a node refer to, as ADDED, then
	// a BOOKMARK with the annotation k8s.io/initial-events-end, then what changes. DELETED
	// means that none refers to it any more. The sender does not change what it has sent.
	// The watch ends with ctx, when it is stopped, or when the node has too many. How many
	// nodes get their first objects at the same time is bounded here: each next event is taken
	// when the one before has been sent.
	Watch(ctx context.Context, node string) (watch.Interface, error)
}

// References knows which tokens NodeWorkloads need.
type References interface {
	// Tokens are those that the template of a NodeWorkload asks for, and after them those of
	// earlier templates of which something may run. None: no NodeWorkload of this name is on
	// the node.
	Tokens(node, namespace, name string) []objects.AccountTokens
}

// TokenRights knows of which service accounts the manager may make tokens.
type TokenRights interface {
	// TokenRight returns why it may make none of an account, with the command that grants the right; ""
	// if it may. The error is one of asking.
	TokenRight(ctx context.Context, namespace, account string) (missing string, err error)
}

// Workloads knows which NodeWorkload runs where.
type Workloads interface {
	// WorkloadOf is the ManagedWorkload of a NodeWorkload. found is false where no NodeWorkload of
	// this name is on the node.
	WorkloadOf(node, namespace, name string) (workload string, found bool)
}

// Nodes knows the Nodes of now.
type Nodes interface {
	// Get is the Node of a name, nil if there is none.
	Get(name string) *corev1.Node
}

// Sources are what the aggregated API asks.
type Sources struct {
	Nodes      Nodes
	Objects    Objects
	References References
	Workloads  Workloads
	// TokenRights says what is missing where the API server refuses to make a token.
	TokenRights TokenRights
}
