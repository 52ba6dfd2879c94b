// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
)

// tokenRights knows of which service accounts the manager may make tokens: those that their
// namespace grants.
type tokenRights struct {
	client typedauthorizationv1.SelfSubjectAccessReviewsGetter

	mu sync.Mutex
	// allowed is until when the answer yes is used again. A no is not kept: whoever reads it grants
	// the right and tries again.
	allowed map[types.NamespacedName]time.Time
}

// TokenRight returns why nodes would get no token of a service account, with the command that
// grants the right; "" if they would. The error is one of asking.
func (h *Hub) TokenRight(ctx context.Context, namespace, account string) (missing string, err error) {
	allowed, err := h.tokens.ask(ctx, types.NamespacedName{Namespace: namespace, Name: account})
	if err != nil || allowed {
		return "", err
	}
	return fmt.Sprintf("the manager may not make tokens of service account %q in namespace %s; run: %s",
		account, namespace, apiobjects.GrantTokens(namespace, account, h.account.subject(ctx))), nil
}

// ask asks the API server whether the manager may make tokens of an account.
func (r *tokenRights) ask(ctx context.Context, account types.NamespacedName) (bool, error) {
	now := time.Now()
	if r.known(account, now) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	review, err := r.client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: account.Namespace, Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token", Name: account.Name,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask whether the manager may make tokens of service account %s: %w", account, err)
	}
	if !review.Status.Allowed {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.allowed, func(_ types.NamespacedName, until time.Time) bool { return now.After(until) })
	r.allowed[account] = now.Add(Recheck)
	return true, nil
}

func (r *tokenRights) known(account types.NamespacedName, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.allowed[account]
	return known && now.Before(until)
}
