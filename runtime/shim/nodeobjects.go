// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"iter"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
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
	// renewed brings the files of a pod up to date that may show another token.
	renewed func(uid types.UID)
}

func newNodeObjects(client *objectClient, uid *nodeUID, pool func() workloads, c *clock.Clock, log logr.Logger) *nodeObjects {
	n := &nodeObjects{uid: uid, pool: pool}
	n.Store = objects.NewStore(n.changed)
	n.KeepWhile(n.refersTo)
	n.Tokens = objects.NewTokens(objects.TokensConfig{
		Request: client.token, NodeUID: uid.current, Fetched: n.fetched, Clock: c, Log: log,
	})
	n.watch = &objectWatch{client: client, store: n.Store, needed: n.refersToAny, kicked: make(chan struct{}, 1), log: log}
	uid.needed = n.asksForTokens
	return n
}

// fetched has a token shown that has come, and wakes who may wait for it.
func (n *nodeObjects) fetched(uid types.UID) {
	if n.renewed != nil {
		n.renewed(uid)
	}
	n.wake(uid)
}

func (n *nodeObjects) wake(uid types.UID) { n.pool().Wake(uid) }

// pods yields the pods of a workload of which something runs or may be started: that which is
// wanted, and those that are kept.
func pods(k podworker.Known) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		if k.Terminated {
			return
		}
		if k.Pod != nil && !yield(k.Pod) {
			return
		}
		for _, pod := range k.Kept {
			if !yield(pod) {
				return
			}
		}
	}
}

// refers reports whether a workload refers to an object that matches, or asks for tokens of an
// account that does.
func refers(k podworker.Known, match func(apiobjects.Ref) bool) bool {
	for pod := range pods(k) {
		if slices.ContainsFunc(apiobjects.Of(&pod.Spec), match) {
			return true
		}
		if account, found := apiobjects.AccountOf(&pod.Spec); found && match(account) {
			return true
		}
	}
	return false
}

// refersToAny is whether a workload of the node refers to an object.
func (n *nodeObjects) refersToAny() bool {
	return slices.ContainsFunc(n.pool().Known(), func(k podworker.Known) bool {
		return refers(k, func(apiobjects.Ref) bool { return true })
	})
}

// refersTo is whether a workload of the node refers to this object.
func (n *nodeObjects) refersTo(key objects.Key) bool {
	return slices.ContainsFunc(n.pool().Known(), func(k podworker.Known) bool {
		return k.Namespace == key.Namespace && refers(k, func(ref apiobjects.Ref) bool { return ref == key.Ref })
	})
}

// asksForTokens is whether a workload of the node asks for a token.
func (n *nodeObjects) asksForTokens() bool {
	return slices.ContainsFunc(n.pool().Known(), func(k podworker.Known) bool {
		for pod := range pods(k) {
			if len(apiobjects.Tokens(&pod.Spec)) > 0 {
				return true
			}
		}
		return false
	})
}

// changed brings the files of workloads that refer to one of the objects up to date, and
// wakes those workloads: they may wait for it. Tokens of accounts that are others by now are renewed.
func (n *nodeObjects) changed(namespace string, refs []apiobjects.Ref) {
	for _, ref := range refs {
		if ref.Kind != apiobjects.ServiceAccount {
			continue
		}
		if uid, known := n.AccountUID(namespace, ref.Name); known {
			n.AccountKnown(types.NamespacedName{Namespace: namespace, Name: ref.Name}, uid)
		}
	}
	if n.refresh != nil {
		n.refresh(namespace, refs)
	}
	for _, k := range n.pool().Known() {
		if k.Namespace == namespace && refers(k, func(ref apiobjects.Ref) bool { return slices.Contains(refs, ref) }) {
			n.wake(k.UID)
		}
	}
}
