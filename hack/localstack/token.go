// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// The service accounts of shims beside a kubelet, and on nodes without one.
const (
	shimAccount           = "managedworkload-shim"
	standaloneShimAccount = "managedworkload-standalone-shim"
)

// tokenLifetime is what docs/operations.md asks for. A shim without a kubelet renews its token.
const tokenLifetime = 24 * time.Hour

// shimIdentity is that of the node's shim: its token is bound to the node.
func (n *Node) shimIdentity() identity {
	name := ofNode(shimName, n.number)
	return identity{name: name, tokenFile: n.stack.layout.token(name)}
}

// ShimTokenFile is the path of the shim's token.
func (n *Node) ShimTokenFile() string { return n.shimIdentity().tokenFile }

// IssueToken makes the Node, unless it is there, and a token for its shim, as docs/operations.md
// has an administrator do it for a node without a kubelet.
func (n *Node) IssueToken(ctx context.Context) error {
	token, err := n.requestToken(ctx)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	// The shim may read it meanwhile.
	file := n.ShimTokenFile()
	if err := os.WriteFile(file+".new", []byte(token), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func (n *Node) requestToken(ctx context.Context) (string, error) {
	client, err := kubernetes.NewForConfig(n.stack.api)
	if err != nil {
		return "", err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, Labels: map[string]string{"managedworkload.dev/registered-by": "shim"},
	}}
	made, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("make the Node: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: made.Name, UID: made.UID},
	}}
	answer, err := client.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, n.account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token for the shim: %w", err)
	}
	return answer.Status.Token, nil
}
