// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/managertest"
)

func TestStripNodeKeepsWhatPlacementReads(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"big": "x"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{managertest.Taint("a", corev1.TaintEffectNoExecute)}},
		Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}},
	}
	want := node.DeepCopy()
	want.Annotations, want.Status = nil, corev1.NodeStatus{}
	got, err := stripNode(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}
