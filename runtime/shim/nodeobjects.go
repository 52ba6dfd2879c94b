// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/objects"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// workloads are the node's, as far as objects are concerned.
type workloads interface {
	Known() []podworker.Known
	Wake(uid types.UID) bool
}

// nodeObjects is where the node's containers get their objects and tokens from, and what
// keeps that up to date.
type nodeObjects struct {
	objects.Source
	watch *objectWatch
	uid   *nodeUID
	// pool is made later than this.
	pool func() workloads
	// refresh brings files up to date that show one of the objects; nil where there are none.
	refresh func(namespace string, refs []apiobjects.Ref)
}

func newNodeObjects(client *objectClient, uid *nodeUID, pool func() workloads, c *clock.Clock, log logr.Logger) *nodeObjects {
	n := &nodeObjects{uid: uid, pool: pool}
	n.Store = objects.NewStore(n.changed)
	n.Tokens = objects.NewTokens(objects.TokensConfig{
		Request: client.token, NodeUID: uid.current, Fetched: n.wake, Clock: c, Log: log,
	})
	n.watch = &objectWatch{client: client, store: n.Store, needed: n.refersToAny, kicked: make(chan struct{}, 1), log: log}
	uid.needed = n.asksForTokens
	return n
}

func (n *nodeObjects) wake(uid types.UID) { n.pool().Wake(uid) }

// refersToAny is whether a workload of the node refers to an object.
func (n *nodeObjects) refersToAny() bool {
	return slices.ContainsFunc(n.pool().Known(), func(k podworker.Known) bool {
		return k.Pod != nil && len(apiobjects.Of(&k.Pod.Spec)) > 0
	})
}

// asksForTokens is whether a workload of the node asks for a token.
func (n *nodeObjects) asksForTokens() bool {
	return slices.ContainsFunc(n.pool().Known(), func(k podworker.Known) bool {
		return k.Pod != nil && len(apiobjects.Tokens(&k.Pod.Spec)) > 0
	})
}

// changed brings the files of workloads that refer to one of the objects up to date, and
// wakes those workloads: they may wait for it.
func (n *nodeObjects) changed(namespace string, refs []apiobjects.Ref) {
	if n.refresh != nil {
		n.refresh(namespace, refs)
	}
	for _, k := range n.pool().Known() {
		if k.Namespace != namespace || k.Pod == nil {
			continue
		}
		if slices.ContainsFunc(apiobjects.Of(&k.Pod.Spec), func(ref apiobjects.Ref) bool { return slices.Contains(refs, ref) }) {
			n.wake(k.UID)
		}
	}
}
