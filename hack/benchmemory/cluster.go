// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/simnode"
)

// namespace holds all workloads.
const namespace = "bench"

func nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

func workloadName(i int) string { return fmt.Sprintf("workload-%d", i) }

// The kinds that matter beyond the API.
var (
	nodes         = corev1.SchemeGroupVersion.WithResource("nodes")
	leases        = coordinationv1.SchemeGroupVersion.WithResource("leases")
	workloads     = v1alpha1.GroupVersion.WithResource("managedworkloads")
	nodeWorkloads = v1alpha1.GroupVersion.WithResource("nodeworkloads")
)

// newServer has all kinds that the manager reads and writes, two namespaces, and nothing
// else.
func newServer() *server {
	s := &server{store: newStore()}
	s.add(corev1.SchemeGroupVersion, "nodes", "Node", false)
	s.add(corev1.SchemeGroupVersion, "namespaces", "Namespace", false)
	s.add(corev1.SchemeGroupVersion, "events", "Event", true).silent = true
	for resource, kind := range map[string]string{
		"pods": "Pod", "resourcequotas": "ResourceQuota", "secrets": "Secret", "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount",
	} {
		s.add(corev1.SchemeGroupVersion, resource, kind, true)
	}
	s.add(coordinationv1.SchemeGroupVersion, "leases", "Lease", true)
	for resource, kind := range map[string]string{
		"managedworkloads": "ManagedWorkload", "nodeworkloads": "NodeWorkload", "managedworkloadrevisions": "ManagedWorkloadRevision",
	} {
		s.add(v1alpha1.GroupVersion, resource, kind, true)
	}
	for _, name := range []string{namespace, v1alpha1.DefaultNamespace} {
		s.put(corev1.SchemeGroupVersion.WithResource("namespaces"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return s
}

// put creates an object that is there from the beginning.
func (s *server) put(gvr schema.GroupVersionResource, o runtime.Object) {
	if _, err := s.create(s.kinds[gvr], asObject(o)); err != nil {
		panic(err) // a mistake of the bench
	}
}

// putNodes makes Nodes with the Leases of their shims, which hold for the whole bench.
func (s *server) putNodes(from, to int) {
	for i := from; i < to; i++ {
		s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}})
		s.put(leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.LeaseNamePrefix + nodeName(i)},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(nodeName(i)), LeaseDurationSeconds: ptr.To[int32](24 * 3600), RenewTime: ptr.To(metav1.NowMicro()),
			},
		})
	}
}

// putWorkloads makes workloads whose NodeWorkloads have a size, in bytes.
func (s *server) putWorkloads(n, size int) {
	const statusAndMetadata = 2900
	for i := range n {
		mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workloadName(i)}}
		mw.Spec.Template = simnode.Template("bench.example/app:1", size-statusAndMetadata)
		mw.Status.ObservedGeneration = -1
		s.put(workloads, mw)
	}
}

// answerAsShim reports each new NodeWorkload as ready.
func (s *server) answerAsShim(o *unstructured.Unstructured) {
	if o.GetKind() == "NodeWorkload" {
		s.report(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, func(*simnode.Share, time.Time) {})
	}
}

// report writes what a shim would report about a NodeWorkload that has run for a while,
// and to which something else has happened.
func (s *server) report(key types.NamespacedName, happened func(*simnode.Share, time.Time)) {
	_, err := s.change(s.kinds[nodeWorkloads], key, true, func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		nw := &v1alpha1.NodeWorkload{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, nw); err != nil {
			return nil, err
		}
		var share simnode.Share
		now := time.Now().Add(-time.Hour)
		for _, then := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			share.Step(nw, simnode.Times{Create: time.Second}, now.Add(then))
		}
		happened(&share, time.Now())
		st, _ := share.Step(nw, simnode.Times{}, time.Now())
		for _, c := range nw.Status.Conditions {
			if slices.Contains(v1alpha1.ManagersConditions, c.Type) {
				st.Conditions = append(st.Conditions, c)
			}
		}
		nw.Status = *st
		return asObject(nw), nil
	})
	if err != nil {
		progress("No report about %s: %v", key, err)
	}
}

// learn makes the NodeWorkloads of all nodes from those of the first.
func (s *server) learn(nodes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kinds[nodeWorkloads]
	learned := make([]*unstructured.Unstructured, 0, len(c.stored))
	for _, key := range c.keys() {
		learned = append(learned, c.stored[key])
	}
	p, err := newPattern(learned, nodes, s.version+1)
	if err != nil {
		return err
	}
	s.version += int64(p.len()) + 1
	c.lazy, c.stored, c.log, c.oldest = p, map[types.NamespacedName]*unstructured.Unstructured{}, nil, s.version
	return nil
}

// written is how many writes there were of a kind, whatever they did.
func (s *server) written(resource string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, count := range s.writes {
		if strings.HasSuffix(what, " "+resource) {
			n += count
		}
	}
	return n
}

// complete says which workload's status does not count all nodes as ready.
func (s *server) complete(nodes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, mw := range s.kinds[workloads].stored {
		ready, _, err := unstructured.NestedInt64(mw.Object, "status", "readyNodes")
		if err != nil || ready != int64(nodes) {
			return errors.Join(fmt.Errorf("the status of %s says %d of %d nodes ready", key, ready, nodes), err)
		}
	}
	return nil
}
