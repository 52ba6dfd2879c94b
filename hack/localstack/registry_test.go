// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const lateImage = "managedworkload.dev/testprogram:late"

// An image that the registry lacks fails a pull at once, also where one node has it. Each
// node can pull it once it was pushed.
func TestLateImage(t *testing.T) {
	stack := startForTest(t, "test-registry", Options{WithoutControlPlane: true, WithRegistry: true, Nodes: 2})
	if err := stack.Nodes[1].Import(t.Context(), lateImage); err != nil {
		t.Fatal(err)
	}
	for i, n := range stack.Nodes {
		if has := hasImage(t, n); has != (i == 1) {
			t.Errorf("%s has the image: %v", n.NodeName(), has)
		}
		if err := pull(t, n); status.Code(err) != codes.NotFound {
			t.Errorf("pull on %s: %v, want that it is not found", n.NodeName(), err)
		}
	}
	if err := stack.Push(t.Context(), lateImage); err != nil {
		t.Fatal(err)
	}
	for _, n := range stack.Nodes {
		if err := pull(t, n); err != nil || !hasImage(t, n) {
			t.Errorf("pull on %s: %v", n.NodeName(), err)
		}
	}
}

func pull(t *testing.T, n *Node) error {
	t.Helper()
	_, err := connect(t, n).PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: lateImage}})
	return err
}

func hasImage(t *testing.T, n *Node) bool {
	t.Helper()
	found, err := connect(t, n).ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: lateImage}})
	if err != nil {
		t.Fatal(err)
	}
	return found.GetImage() != nil
}

func connect(t *testing.T, n *Node) *CRI {
	t.Helper()
	cri, err := n.CRI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cri.Close(); err != nil {
			t.Error(err)
		}
	})
	return cri
}
