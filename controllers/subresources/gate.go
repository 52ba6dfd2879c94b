// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the API server says of a token that is bound to a Node, or to a Pod on it.
const (
	extraNodeName = "authentication.kubernetes.io/node-name"
	extraNodeUID  = "authentication.kubernetes.io/node-uid"
)

// caller is a shim: a user who may report, for a Node that lives.
type caller struct {
	user user.Info
	node string
	// uid is that of the Node. Of a caller who is the node himself it is that of the Node seen first.
	uid types.UID
}

// refusal is why a user may not have what he asks for. Other errors mean that it could not be
// found out.
type refusal struct{ reason string }

func (r refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// gate decides who is the shim of a node.
type gate struct {
	reader  client.Reader
	nodes   Nodes
	reviews *reviews
}

// enter is nil if the caller is the shim of its node. Its Node is read from the API server: the
// cache may not know yet that it is gone, or another.
func (g *gate) enter(ctx context.Context, c *caller) error {
	if err := g.reviews.mayReport(ctx, c.user); err != nil {
		return err
	}
	return g.live(ctx, c)
}

// live looks for the caller's Node at the API server.
func (g *gate) live(ctx context.Context, c *caller) error {
	node := &corev1.Node{}
	err := g.reader.Get(ctx, client.ObjectKey{Name: c.node}, node)
	switch {
	case apierrors.IsNotFound(err):
		return c.fits(nil)
	case err != nil:
		return fmt.Errorf("read Node %s: %w", c.node, err)
	}
	return c.fits(node)
}

// still is nil as long as the caller may have what he was given. Where the cache says that his
// Node is gone, the API server is asked: the cache may not have it yet.
func (g *gate) still(ctx context.Context, c *caller) error {
	if err := g.reviews.mayReport(ctx, c.user); err != nil {
		return err
	}
	if c.fits(g.nodes.Get(c.node)) != nil {
		return g.live(ctx, c)
	}
	return nil
}

// nodeOf is the node that a user is: a shim that acts as its node, or a kubelet.
func nodeOf(u user.Info) (node string, is bool) {
	node, is = strings.CutPrefix(u.GetName(), "system:node:")
	return node, is && node != "" && slices.Contains(u.GetGroups(), user.NodesGroup)
}

// bound is the caller by the word of the API server that authenticated his token.
func bound(u user.Info) (*caller, error) {
	if node, is := nodeOf(u); is {
		return &caller{user: u, node: node}, nil
	}
	extra := u.GetExtra()
	names, uids := extra[extraNodeName], extra[extraNodeUID]
	if len(names) != 1 || names[0] == "" || len(uids) != 1 || uids[0] == "" {
		return nil, refuse("%s uses a token that is not bound to a node", u.GetName())
	}
	return &caller{user: u, node: names[0], uid: types.UID(uids[0])}, nil
}

// fits checks that the Node is the one into which the token is bound. Another of the same name
// may be another machine. The first Node of a caller who is the node himself is his. The API server lets a token act as a node only while the Node into
// which it is bound exists.
func (c *caller) fits(node *corev1.Node) error {
	switch {
	case node == nil:
		return refuse("the node %s of the token of %s does not exist", c.node, c.user.GetName())
	case c.uid == "":
		c.uid = node.UID
	case node.UID != c.uid:
		return refuse("the token of %s is bound to an earlier node %s (UID %s, the present one has %s)", c.user.GetName(), c.node, c.uid, node.UID)
	}
	return nil
}
