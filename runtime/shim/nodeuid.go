// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeUIDInterval is the time between two looks at the Node's UID.
const nodeUIDInterval = 30 * time.Second

// nodeUID knows the UID of this node's Node, to which the tokens of its containers are
// bound: those of a Node that was deleted and made again are refused.
type nodeUID struct {
	api  client.Reader
	node string
	// needed is whether a workload asks for a token; nothing is asked before.
	needed func() bool
	// changed is called when the Node has become another one.
	changed func()

	mu  sync.Mutex
	uid types.UID
}

// current is the UID that was seen last, "" if none was.
func (n *nodeUID) current() types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.uid
}

// keep looks at the Node until the context is done.
func (n *nodeUID) keep(ctx context.Context) error {
	keepTrying(ctx, nodeUIDInterval, "read the UID of the Node", n.look)
	return nil
}

// look reads the Node's UID. The API server's cache is good enough, and costs little.
func (n *nodeUID) look(ctx context.Context) error {
	if !n.needed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	cached := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
	if err := n.api.Get(ctx, client.ObjectKey{Name: n.node}, found, cached); err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	n.mu.Lock()
	before := n.uid
	n.uid = found.UID
	n.mu.Unlock()
	if before != "" && before != found.UID {
		logr.FromContextOrDiscard(ctx).Info("The Node has become another one; renewing the tokens", "before", before, "after", found.UID)
		n.changed()
	}
	return nil
}
