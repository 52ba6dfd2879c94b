// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/statefile"
)

const (
	// tokenLifetime is what is asked for; the API server may give less.
	tokenLifetime = 24 * time.Hour
	// tokenInterval is the time between two looks at the token, and two tries.
	tokenInterval = time.Minute
)

// errNotRenewable says that a token is not bound to a Node, or not to a Node alone.
var errNotRenewable = errors.New("the token is not bound to this node alone: it cannot be renewed")

// tokenKeeper renews the token of a shim that no kubelet gives one: it asks for one
// like it before it ends, and writes it to the file that client-go reads it from.
type tokenKeeper struct {
	api   client.Client
	clock *clock.Clock
	file  string
	node  string
}

// keep renews the token until the context is done.
func (k *tokenKeeper) keep(ctx context.Context) error {
	keepTrying(ctx, tokenInterval, "renew the token", k.renewIfDue)
	return nil
}

// renewIfDue renews a token of which four fifths of its time are over, as a kubelet
// renews those of pods. (kubelet token_manager.go:requiresRefresh)
func (k *tokenKeeper) renewIfDue(ctx context.Context) error {
	data, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	held, err := apiobjects.ParseClaims(string(data))
	if err != nil {
		return err
	}
	if held.Kubernetes.Node.Name != k.node || held.Kubernetes.Pod.Name != "" {
		return errNotRenewable
	}
	issued, expires := time.Unix(held.IssuedAt, 0), time.Unix(held.Expires, 0)
	if k.clock.Now().Before(issued.Add(expires.Sub(issued) / 5 * 4)) {
		return nil
	}
	token, err := k.request(ctx, held)
	if err != nil {
		return err
	}
	if err := statefile.Replace(k.file, []byte(token)); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Renewed the token", "file", k.file)
	return nil
}

// request asks for a token of the same account, bound to the same Node.
func (k *tokenKeeper) request(ctx context.Context, held apiobjects.Claims) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: held.Kubernetes.Namespace, Name: held.Kubernetes.ServiceAccount.Name,
	}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Node", Name: held.Kubernetes.Node.Name, UID: held.Kubernetes.Node.UID,
		},
	}}
	if err := k.api.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("request a token for service account %s/%s: %w", account.Namespace, account.Name, err)
	}
	return request.Status.Token, nil
}
