// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/managedworkload/managedworkload/api/objects"
)

const (
	resourceToken = "nodeworkloads/token"
	// The API server gives tokens of 600 s at least. Ours outlive their workload, because they are
	// bound to the Node: an hour at most.
	minExpiration = 600
	maxExpiration = 3600
	maxTokenBody  = 64 << 10
	// tokenTimeout bounds the request to the API server.
	tokenTimeout = 30 * time.Second
	// referencesLag is how long what is known here of a NodeWorkload may be behind what its shim
	// was shown: each has a watch of its own. referencesLook is the time between two looks.
	referencesLag  = 2 * time.Second
	referencesLook = 50 * time.Millisecond
)

// serveToken makes a token for a NodeWorkload of the caller's node.
func (h *handler) serveToken(w http.ResponseWriter, req *http.Request, u user.Info) *metav1.Status {
	namespace, name := req.PathValue("namespace"), req.PathValue("name")
	ctx, cancel := context.WithTimeout(req.Context(), tokenTimeout)
	defer cancel()
	asked, err := readTokenRequest(w, req)
	if err != nil {
		return statusOf(resourceToken, name, err)
	}
	c, err := bound(u)
	if err != nil {
		return statusOf(resourceToken, name, err)
	}
	done, err := h.bounds.tokens.take(c)
	if err != nil {
		return statusOf(resourceToken, name, err)
	}
	defer done()
	// By the cache, where it knows the Node: the API server looks itself whether it lives, when it
	// binds the token to it.
	if err := h.gate.still(ctx, c); err != nil {
		return statusOf(resourceToken, name, err)
	}
	account, err := h.mayHaveSoon(ctx, c, namespace, name, asked)
	if err != nil {
		return statusOf(resourceToken, name, err)
	}
	made, err := h.makeToken(ctx, c, namespace, account, asked)
	if err != nil {
		return statusOf(resourceToken, name, err)
	}
	respond(w, http.StatusCreated, made)
	return nil
}

// readTokenRequest reads what is asked for.
func readTokenRequest(w http.ResponseWriter, req *http.Request) (*authenticationv1.TokenRequest, error) {
	asked := &authenticationv1.TokenRequest{}
	if err := readBody(w, req, resourceToken, "TokenRequest", maxTokenBody, asked); err != nil {
		return nil, err
	}
	want := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
	if got := asked.GroupVersionKind(); got != want && !got.Empty() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s, not a TokenRequest of %s", got.Kind, want.GroupVersion()))
	}
	if len(asked.Spec.Audiences) > 1 {
		return nil, apierrors.NewBadRequest("spec.audiences: a token is for one audience, or for that of the API server")
	}
	return asked, nil
}

// mayHaveSoon returns what mayHave does, once this replica knows what the shim knows.
func (h *handler) mayHaveSoon(ctx context.Context, c *caller, namespace, name string, asked *authenticationv1.TokenRequest) (account string, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.referencesLag)
	defer cancel()
	for {
		if account, err = h.mayHave(c, namespace, name, asked); err == nil {
			return account, nil
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(referencesLook):
		}
	}
}

// mayHave returns the service account of a token that the caller may have: one that the template
// of a NodeWorkload of its node asks for, or asked for while something of that may run.
func (h *handler) mayHave(c *caller, namespace, name string, asked *authenticationv1.TokenRequest) (account string, err error) {
	all := h.references.Tokens(c.node, namespace, name)
	if len(all) == 0 {
		return "", refuse("there is no NodeWorkload %s/%s on node %s", namespace, name, c.node)
	}
	current := all[0].Account
	account = cmp.Or(asked.Name, current)
	all = slices.DeleteFunc(slices.Clone(all), func(of objects.AccountTokens) bool { return of.Account != account })
	if len(all) == 0 || asked.Namespace != "" && asked.Namespace != namespace {
		return "", refuse("NodeWorkload %s/%s has the service account %s/%s, not %s/%s", namespace, name, namespace, current, cmp.Or(asked.Namespace, namespace), account)
	}
	if ref := asked.Spec.BoundObjectRef; ref != nil && (ref.Kind != "Node" || ref.Name != c.node || ref.UID != "" && ref.UID != c.uid) {
		return "", refuse("spec.boundObjectRef: tokens of a NodeWorkload are bound to its node %s", c.node)
	}
	audience, seconds := wanted(asked)
	for _, of := range all {
		if slices.ContainsFunc(of.Tokens, func(t objects.Token) bool { return t.Audience == audience && seconds <= t.ExpirationSeconds }) {
			return account, nil
		}
	}
	return "", refuse("the template of NodeWorkload %s/%s asks for no token with audience %q that lasts %d s", namespace, name, audience, seconds)
}

// wanted are audience and lifetime of what is asked for.
func wanted(asked *authenticationv1.TokenRequest) (audience string, seconds int64) {
	if len(asked.Spec.Audiences) == 1 {
		audience = asked.Spec.Audiences[0]
	}
	if asked.Spec.ExpirationSeconds == nil {
		return audience, objects.DefaultExpirationSeconds
	}
	return audience, *asked.Spec.ExpirationSeconds
}

// makeToken asks the API server for a token that is bound to the caller's Node.
func (h *handler) makeToken(ctx context.Context, c *caller, namespace, account string, asked *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	_, seconds := wanted(asked)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         asked.Spec.Audiences,
		ExpirationSeconds: new(min(max(seconds, minExpiration), maxExpiration)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: c.node, UID: c.uid},
	}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := h.client.SubResource("token").Create(ctx, of, request); err != nil {
		if missing := h.missingRight(ctx, namespace, account, err); missing != "" {
			return nil, refuse("%s", missing)
		}
		return nil, fmt.Errorf("make a token of service account %s/%s: %w", namespace, account, err)
	}
	request.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: authenticationv1.SchemeGroupVersion.String()}
	return request, nil
}

// missingRight says how a namespace grants tokens of an account, where that is why the API server
// refused one; otherwise "".
func (h *handler) missingRight(ctx context.Context, namespace, account string, refused error) string {
	if !apierrors.IsForbidden(refused) || h.tokenRights == nil {
		return ""
	}
	missing, err := h.tokenRights.TokenRight(ctx, namespace, account)
	if err != nil {
		return "" // what the API server said is passed on
	}
	return missing
}
