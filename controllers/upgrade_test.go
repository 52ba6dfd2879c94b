// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// earlierCommits are before admission acted on templates, and before roll-outs had a
// strategy. testdata/earlier has what their managers left of a
// workload on five nodes in a namespace with defaultLimits, but for what an API server
// sets itself. The revision has the form of today, which changes freely until a release.
var earlierCommits = []string{"c0e26c9", "88c5a97"}

// defaultLimits change every template that is admitted: the first of earlierCommits ran
// the template without them.
var defaultLimits = corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
	Type:           corev1.LimitTypeContainer,
	Default:        corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
}}}

// earlier reads what the manager of a commit left.
func earlier(commit string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(filepath.Join("testdata", "earlier", commit+".yaml"))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := decoder.Decode(u); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", commit, err)
		}
		objects = append(objects, u)
	}
}

// plantEarlier creates what earlier managers left, before this one starts.
func plantEarlier(ctx context.Context) error {
	for _, commit := range earlierCommits {
		objects, err := earlier(commit)
		if err != nil {
			return err
		}
		meta := metav1.ObjectMeta{Namespace: "earlier-" + commit, Name: "limits"}
		err = errors.Join(
			api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}}),
			api.Create(ctx, &corev1.LimitRange{ObjectMeta: meta, Spec: defaultLimits}))
		owner := objects[0] // the ManagedWorkload
		for _, u := range objects {
			err = errors.Join(err, plant(ctx, u, owner))
		}
		if err != nil {
			return fmt.Errorf("objects of %s: %w", commit, err)
		}
	}
	return nil
}

// plant creates an object with its status, and the Node of a NodeWorkload with a shim.
func plant(ctx context.Context, u, owner *unstructured.Unstructured) error {
	by, status := client.FieldOwner("kubectl-client-side-apply"), u.DeepCopy()
	if u != owner {
		by = component
		refs := u.GetOwnerReferences()
		refs[0].UID = owner.GetUID()
		u.SetOwnerReferences(refs)
	}
	if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node != "" {
		lease := leaseOf(node)
		lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To[int32](3600), ptr.To(metav1.NowMicro())
		labels := map[string]string{"test": u.GetNamespace()}
		if err := errors.Join(api.Create(ctx, lease), api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})); err != nil {
			return err
		}
	}
	if err := api.Create(ctx, u, by); err != nil {
		return err
	}
	if status.Object["status"] == nil {
		return nil
	}
	u.Object["status"] = status.Object["status"]
	return api.Status().Update(ctx, u)
}

// A manager that is started over what an earlier one left writes labels and no spec, also
// where admission would make another template of it now.
func TestUpgradeWritesNoSpec(t *testing.T) {
	for _, commit := range earlierCommits {
		t.Run(commit, func(t *testing.T) {
			if api == nil {
				t.Skip(whyNoAPI)
			}
			t.Parallel()
			c := &cluster{t: t, ctx: t.Context(), namespace: "earlier-" + commit}
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"}}
			mw = await(c, mw, "taken over", func(mw *v1alpha1.ManagedWorkload) bool {
				s := &mw.Status
				return readyOn(5)(mw) && s.UpdatedNodes == 5 && s.UpdateRevision != "" && s.CurrentRevision == s.UpdateRevision
			})
			revisions := &v1alpha1.ManagedWorkloadRevisionList{}
			c.must(api.List(t.Context(), revisions, client.InNamespace(c.namespace)))
			if r := revisions.Items; len(r) != 1 || r[0].Spec.Revision != 1 || !r[0].Spec.RolledOut {
				t.Errorf("revisions: %s", managertest.Dump(r))
			}
			objects, err := earlier(commit)
			c.must(err)
			for _, was := range objects {
				if was.GetKind() == "NodeWorkload" {
					c.wantOnlyLabels(was, mw.Status.UpdateRevision)
				}
			}
		})
	}
}

// wantOnlyLabels waits for the label of a revision on a NodeWorkload, and fails unless its
// spec was never written.
func (c *cluster) wantOnlyLabels(was *unstructured.Unstructured, revision string) {
	c.t.Helper()
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: was.GetName()}}
	nw = await(c, nw, "labelled", func(nw *v1alpha1.NodeWorkload) bool { return nw.Labels[v1alpha1.LabelRevision] == revision })
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(was.GroupVersionKind())
	c.must(api.Get(c.ctx, client.ObjectKeyFromObject(nw), now))
	if diff := cmp.Diff(was.Object["spec"], now.Object["spec"]); diff != "" || now.GetGeneration() != 1 {
		c.t.Errorf("%s: generation %d, spec (-before +after):\n%s", nw.Name, now.GetGeneration(), diff)
	}
}
