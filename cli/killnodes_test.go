// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A node that --node names runs the workload, or is at least one that may run it later. Who may not
// look is not kept from asking.
func TestNamedNodes(t *testing.T) {
	mw := toBeKilled()
	mw.UID = "u"
	on := func(node, workload string, owner *v1alpha1.ManagedWorkload) *v1alpha1.NodeWorkload {
		return &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: workload + "-" + node, Labels: map[string]string{v1alpha1.LabelWorkload: workload},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind("ManagedWorkload"))},
			},
			Spec: v1alpha1.NodeWorkloadSpec{NodeName: node},
		}
	}
	earlier := mw.DeepCopy()
	earlier.UID = "earlier"
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	forbidden := false
	c := &cluster{fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, on("a", "web", mw), on("b", "web", mw), on("c", "web", earlier), on("d", "other", mw)).
		WithIndex(&v1alpha1.NodeWorkload{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*v1alpha1.NodeWorkload).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodeworkloads"}, "", errors.New("no"))
			}
			return c.List(ctx, list, options...)
		}}).Build(), "ns"}
	const restart, stop = v1alpha1.RequestRestart, v1alpha1.RequestStop
	for name, tc := range map[string]struct {
		action    v1alpha1.RequestAction
		nodes     []string
		forbidden bool
		want      string
	}{
		"nodes that run it":                        {action: restart, nodes: []string{"a", "b"}},
		"a misspelt one among them":                {action: restart, nodes: []string{"a", "typo"}, want: `--node: managedworkload "web" does not run on node "typo": it has no NodeWorkload there`},
		"a node without it":                        {action: restart, nodes: []string{"empty"}, want: `does not run on node "empty"`},
		"a node with a NodeWorkload of an earlier": {action: restart, nodes: []string{"c"}, want: `does not run on node "c"`},
		"a node with another workload":             {action: restart, nodes: []string{"d"}, want: `does not run on node "d"`},
		"a stop on a misspelt node":                {action: stop, nodes: []string{"typo"}, want: `does not run on node "typo": nodes "typo" not found`},
		"a stop on a node that may run it later":   {action: stop, nodes: []string{"empty", "b"}},
		"no node by its name":                      {action: restart},
		"no right to look":                         {action: restart, nodes: []string{"typo"}, forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			forbidden = tc.forbidden
			kr := &v1alpha1.KillRequest{Spec: v1alpha1.KillRequestSpec{Action: tc.action, Nodes: v1alpha1.RequestNodes{Names: tc.nodes}}}
			err := c.checkNamed(t.Context(), mw, kr)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// A misspelt node is an error before anything is asked for.
func TestKillOnAMisspeltNode(t *testing.T) {
	ns := newNamespace(t)
	web(t, ns, "app:1")
	run(t, ns, "", "kill", "web", "--action=stop", "--node=typo", "--wait", "--timeout=2s").want(t, ExitError, "", `nodes "typo" not found`)
	run(t, ns, "", "kill", "web", "--action=restart", "--node=typo", "--dry-run", "--timeout=2s").want(t, ExitError, "", `does not run on node "typo"`)
	made := &v1alpha1.KillRequestList{}
	if err := api.List(t.Context(), made, client.InNamespace(ns)); err != nil || len(made.Items) > 0 {
		t.Errorf("made %+v, error %v", made.Items, err)
	}
}
