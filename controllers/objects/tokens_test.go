// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A namespace that grants tokens of one account grants those of no other; what is missing is said as
// commands, and a grant counts at once.
func TestTokenRight(t *testing.T) {
	b := newBench(t, asManager)
	const missing = `the manager may not make tokens of service account "web" in namespace `
	got, err := b.TokenRight(t.Context(), b.namespace, "web")
	want := missing + b.namespace + "; run: " +
		"kubectl create role managedworkload-token-web --verb=create --resource=serviceaccounts/token --resource-name=web -n " + b.namespace + " && " +
		"kubectl create rolebinding managedworkload-token-web --role=managedworkload-token-web --serviceaccount=managed:manager -n " + b.namespace
	if err != nil || got != want {
		t.Errorf("without a grant: %q, error %v, want %q", got, err, want)
	}
	b.grantTokens("web")
	if got, err := b.TokenRight(t.Context(), b.namespace, "web"); err != nil || got != "" {
		t.Errorf("with a grant: %q, error %v", got, err)
	}
	if got, err := b.TokenRight(t.Context(), b.namespace, "admin"); err != nil || got == "" {
		t.Errorf("another account: %q, error %v", got, err)
	}
}

// An answer yes is used again for half a minute, a no and an error are not.
func TestTokenRightIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		var down atomic.Bool
		asked := 0
		api := fake.NewSimpleClientset()
		api.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			if down.Load() {
				return true, nil, errors.New("the API server is away")
			}
			return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed.Load()}}, nil
		})
		api.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "admin"}}}, nil
		})
		h := NewHub(nil, api.AuthenticationV1(), api.AuthorizationV1(), &fakeShares{})
		ask := func(what string, want bool, wantAsked int) {
			t.Helper()
			asked = 0
			missing, err := h.TokenRight(context.Background(), "shop", "web")
			if got := missing == "" && err == nil; got != want || asked != wantAsked {
				t.Errorf("%s: %q, error %v, asked %d times, want allowed %t after %d", what, missing, err, asked, want, wantAsked)
			}
		}
		ask("no grant", false, 1)
		allowed.Store(true)
		ask("a grant", true, 1)
		allowed.Store(false)
		ask("the grant was taken away", true, 0)
		time.Sleep(Recheck)
		ask("half a minute later", false, 1)
		down.Store(true)
		ask("the API server is away", false, 1)
		if _, err := h.TokenRight(t.Context(), "shop", "web"); err == nil {
			t.Error("no error while the API server is away")
		}
	})
}

// grantTokens lets the manager make tokens of an account of the namespace, and waits until the
// authorizer knows.
func (b *bench) grantTokens(account string) {
	b.t.Helper()
	b.bind(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}, ResourceNames: []string{account}})
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: b.namespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: account,
	}}}
	for {
		answer, err := asManager(b.t).AuthorizationV1().SelfSubjectAccessReviews().Create(b.t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		if answer.Status.Allowed {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
