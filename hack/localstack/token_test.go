// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// testShimIdentity checks that the shim is what its token says: bound to the Node as it is.
func testShimIdentity(t *testing.T, stack *Stack, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	if err := stack.ApplyConfig(ctx, filepath.Join(stack.tools.root, "config", "default")); err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, stack.NodeName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := stack.Kubectl(ctx, "--kubeconfig="+stack.ShimKubeconfig(), "auth", "whoami", "-o",
		`jsonpath={.status.userInfo.username} {.status.userInfo.extra.authentication\.kubernetes\.io/node-name} {.status.userInfo.extra.authentication\.kubernetes\.io/node-uid}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `system:serviceaccount:managedworkload-system:managedworkload-standalone-shim ["localstack"] ["` + string(node.UID) + `"]`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("shim's identity (-want +got):\n%s", diff)
	}
}
