// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
)

const (
	// checkEvery is the shortest time between two questions which UID a service account has, and half
	// the longest.
	checkEvery = time.Minute
	// checkQPS and checkBurst bound the questions about all accounts, which take longer than checkEvery
	// says where there are more than some 900.
	checkQPS, checkBurst = 10, 10
	// checkTimeout bounds a question. Of one namespace maxReads are asked at once, so that one without
	// an answer delays no other account.
	checkTimeout = 10 * time.Second
	// checkAudience is that of no service: the token of a question is good for nothing.
	checkAudience = "checks.managedworkload.dev"
	// checkSeconds is how long it is valid: the API server makes none for less.
	checkSeconds = 600
)

// runAccount keeps it known which UID a service account has, until ctx is done: one that is deleted
// and made again has another, and tokens of the one before are worth nothing.
func (o *object) runAccount(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	for ctx.Err() == nil {
		contain.Do(log, func() {
			if err := o.check(ctx); err != nil && ctx.Err() == nil {
				log.V(1).Info("Failed to check a service account; retrying", "namespace", o.key.Namespace, "serviceAccount", o.key.Name, "reason", err.Error())
			}
		})
		o.pause(ctx, wait.Jitter(o.hub.checkEvery, 1))
	}
}

// check asks for the account's UID once. After an error what was known before holds.
func (o *object) check(ctx context.Context) error {
	leave, err := o.hub.enter(ctx, o.key)
	if err != nil {
		return err
	}
	defer leave()
	if err := o.hub.checks.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the turn to check: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	uid, err := o.uid(ctx)
	state := blank(o.key)
	switch {
	case err == nil:
		state.State, state.ObjectUID = subresources.ObjectPresent, uid
	case apiobjects.IsAccountGone(err):
		state = notFound(o.key)
	case apierrors.IsForbidden(err):
		state.State, state.Message = subresources.ObjectForbidden, fmt.Sprintf("the manager may not make tokens of %s", named(o.key.Ref))
	default:
		return err
	}
	o.hub.set(o, state)
	return nil
}

// uid makes a token to learn the UID of its account: the manager may make tokens of the accounts that
// their namespaces grant, and may read no ServiceAccount.
func (o *object) uid(ctx context.Context) (types.UID, error) {
	node := o.hub.nodeOf(o)
	if node == "" {
		return "", errors.New("no node needs tokens of it any more")
	}
	made, err := o.hub.client.ServiceAccounts(o.key.Namespace).CreateToken(ctx, o.key.Name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{checkAudience}, ExpirationSeconds: new(int64(checkSeconds)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token of service account %s/%s: %w", o.key.Namespace, o.key.Name, err)
	}
	return uidOf(made.Status.Token)
}

// nodeOf is a node that needs an object, "" if none does.
func (h *Hub) nodeOf(o *object) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range o.subscribers { // any: the Node of another one may be gone
		return s.node
	}
	return ""
}

// uidOf is the UID of a token's account.
func uidOf(token string) (types.UID, error) {
	claims, err := apiobjects.ParseClaims(token)
	if err == nil && claims.Kubernetes.ServiceAccount.UID == "" {
		err = errors.New("the claims of the token name no account")
	}
	return claims.Kubernetes.ServiceAccount.UID, err
}
