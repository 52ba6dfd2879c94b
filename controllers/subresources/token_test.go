// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/managedworkload/managedworkload/api/objects"
)

func tokenPath(namespace, name string) string {
	return fmt.Sprintf("%s/namespaces/%s/nodeworkloads/%s/token", pathVersion, namespace, name)
}

// withTokens has a NodeWorkload on node a, and another on node b.
func withTokens() *cluster {
	c := newCluster()
	c.tokens["a/ns/web-a"] = []objects.AccountTokens{
		{Account: "web", Tokens: []objects.Token{{Audience: "", ExpirationSeconds: 3607}, {Audience: "vault", ExpirationSeconds: 900}}},
		{Account: "web", Tokens: []objects.Token{{Audience: "earlier", ExpirationSeconds: 900}}},
		{Account: "old", Tokens: []objects.Token{{Audience: "", ExpirationSeconds: 3607}}},
	}
	c.tokens["b/ns/web-b"] = []objects.AccountTokens{{Account: "web", Tokens: []objects.Token{{Audience: "", ExpirationSeconds: 3607}}}}
	return c
}

// A NodeWorkload gets the tokens that its template asks for: of its service account, bound to its
// Node by name and UID, for an hour at most.
func TestToken(t *testing.T) {
	bound := &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: "a", UID: "uid-a"}
	tests := map[string]struct {
		body string
		want authenticationv1.TokenRequestSpec
	}{
		"of the API server": {"{}", authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600)), BoundObjectRef: bound}},
		"as the ServiceAccount plugin asks": {
			`{"spec":{"expirationSeconds":3607}}`, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600)), BoundObjectRef: bound},
		},
		"with an audience": {
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"audiences":["vault"],"expirationSeconds":900}}`,
			authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: new(int64(900)), BoundObjectRef: bound},
		},
		"of the template before, with its account": {
			`{"metadata":{"name":"old"}}`, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600)), BoundObjectRef: bound},
		},
		"of the template before, with its audience": {
			`{"spec":{"audiences":["earlier"],"expirationSeconds":900}}`,
			authenticationv1.TokenRequestSpec{Audiences: []string{"earlier"}, ExpirationSeconds: new(int64(900)), BoundObjectRef: bound},
		},
		"shorter than tokens are": {
			`{"spec":{"expirationSeconds":1,"boundObjectRef":{"kind":"Node","name":"a","uid":"uid-a"}}}`,
			authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600)), BoundObjectRef: bound},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, account := withTokens(), "ns/web"
			if strings.Contains(tc.body, "old") {
				account = "ns/old"
			}
			w := httptest.NewRecorder()
			c.serve(t).ServeHTTP(w, as(post(t, tokenPath("ns", "web-a"), tc.body), shim, "a", "uid-a"))
			var made authenticationv1.TokenRequest
			if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
				t.Fatalf("answer %d %s, error %v", w.Code, w.Body, err)
			}
			if made.Kind != "TokenRequest" || made.Status.Token != "made" {
				t.Errorf("answer %s", w.Body)
			}
			if diff := cmp.Diff(tc.want, c.asked[0].Spec); diff != "" || c.accounts[0] != account {
				t.Errorf("asked for %s (-want +got):\n%s", c.accounts[0], diff)
			}
		})
	}
}

// No other token is made.
func TestTokenOfAnotherIsRefused(t *testing.T) {
	tests := map[string]struct {
		user, node, uid string
		path, body      string
		change          func(*cluster)
		code            int
		words           string
	}{
		"of another node's NodeWorkload": {shim, "a", "uid-a", tokenPath("ns", "web-b"), "{}", nil, http.StatusForbidden, "there is no NodeWorkload ns/web-b on node a"},
		"of none":                        {shim, "a", "uid-a", tokenPath("other", "web-a"), "{}", nil, http.StatusForbidden, "there is no NodeWorkload other/web-a on node a"},
		"of one that was there until a moment ago": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), "{}", func(c *cluster) { delete(c.tokens, "a/ns/web-a") }, http.StatusForbidden, "there is no NodeWorkload",
		},
		"that its template asked for until a moment ago": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), "{}", func(c *cluster) { c.tokens["a/ns/web-a"] = []objects.AccountTokens{{Account: "web"}} }, http.StatusForbidden, "asks for no token",
		},
		"for another service account": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"metadata":{"name":"admin"}}`, nil, http.StatusForbidden, "has the service account ns/web, not ns/admin",
		},
		"of the account before, for an audience of now": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"metadata":{"name":"old"},"spec":{"audiences":["vault"]}}`, nil, http.StatusForbidden, `asks for no token with audience "vault"`,
		},
		"of another namespace": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"metadata":{"namespace":"kube-system"}}`, nil, http.StatusForbidden, "has the service account ns/web, not kube-system/web",
		},
		"for another audience": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"spec":{"audiences":["bank"]}}`, nil, http.StatusForbidden, `asks for no token with audience "bank"`,
		},
		"that lasts longer": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"spec":{"audiences":["vault"],"expirationSeconds":901}}`, nil, http.StatusForbidden, "that lasts 901 s",
		},
		"bound to a Pod": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"spec":{"boundObjectRef":{"kind":"Pod","name":"a"}}}`, nil, http.StatusForbidden, "bound to its node a",
		},
		"bound to another Node": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"spec":{"boundObjectRef":{"kind":"Node","name":"b"}}}`, nil, http.StatusForbidden, "bound to its node a",
		},
		"without report": {editor, "a", "uid-a", tokenPath("ns", "web-a"), "{}", nil, http.StatusForbidden, "lacks the verb report"},
		"of an earlier node": {
			shim, "a", "uid-a", tokenPath("ns", "web-a"), "{}", func(c *cluster) { c.set("a", "uid-new") }, http.StatusForbidden, "bound to an earlier node",
		},
		"without a node":   {shim, "", "", tokenPath("ns", "web-a"), "{}", nil, http.StatusForbidden, "not bound to a node"},
		"two audiences":    {shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"spec":{"audiences":["","vault"]}}`, nil, http.StatusBadRequest, "spec.audiences"},
		"no JSON":          {shim, "a", "uid-a", tokenPath("ns", "web-a"), "token", nil, http.StatusBadRequest, "read the TokenRequest"},
		"another kind":     {shim, "a", "uid-a", tokenPath("ns", "web-a"), `{"kind":"TokenReview"}`, nil, http.StatusBadRequest, "is a TokenReview"},
		"with a huge body": {shim, "a", "uid-a", tokenPath("ns", "web-a"), strings.Repeat(" ", maxTokenBody+1), nil, http.StatusRequestEntityTooLarge, "limit is"},
		"of an account that does not exist": {shim, "a", "uid-a", tokenPath("ns", "web-a"), "{}", func(c *cluster) {
			c.noToken = apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "web")
		}, http.StatusNotFound, `serviceaccounts "web" not found`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := withTokens()
			if tc.change != nil {
				tc.change(c)
			}
			code, status := answer(t, c.serve(t), as(post(t, tc.path, tc.body), tc.user, tc.node, tc.uid))
			if code != tc.code || !strings.Contains(status.Message, tc.words) {
				t.Errorf("answer %d %q, want %d %q", code, status.Message, tc.code, tc.words)
			}
			if len(c.asked) != 0 {
				t.Errorf("tokens of %q were made", c.accounts)
			}
		})
	}
}

// A token that the namespace does not grant is refused with the commands that grant it; what else
// forbids one is passed on.
func TestTokenWithoutAGrant(t *testing.T) {
	for name, tc := range map[string]struct{ missing, words string }{
		"no grant":           {"the manager may not make tokens; run: kubectl x", "the manager may not make tokens; run: kubectl x"},
		"refused by another": {"", "none of managers"},
	} {
		t.Run(name, func(t *testing.T) {
			c := withTokens()
			c.noToken = apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, "web", errors.New("none of managers"))
			h := c.handler()
			h.tokenRights = right(tc.missing)
			code, status := answer(t, h.routes(front(t)), as(post(t, tokenPath("ns", "web-a"), "{}"), shim, "a", "uid-a"))
			if code != http.StatusForbidden || !strings.Contains(status.Message, tc.words) {
				t.Errorf("answer %d %q, want %q", code, status.Message, tc.words)
			}
		})
	}
}

// right is what is missing to make a token.
type right string

func (r right) TokenRight(context.Context, string, string) (string, error) { return string(r), nil }

// A shim may have been shown a NodeWorkload before this replica was: the token comes when it has.
func TestATokenWaitsForItsNodeWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		h := c.handler()
		h.referencesLag = referencesLag
		known := c.tokens["a/ns/web-a"]
		delete(c.tokens, "a/ns/web-a")
		time.AfterFunc(referencesLag/2, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.tokens["a/ns/web-a"] = known
		})
		w := httptest.NewRecorder()
		h.routes(front(t)).ServeHTTP(w, as(post(t, tokenPath("ns", "web-a"), "{}"), shim, "a", "uid-a"))
		if w.Code != http.StatusCreated {
			t.Errorf("answer %d %s", w.Code, w.Body)
		}
	})
}

// Where the body is not JSON, the answer says so: there is no protobuf here.
func TestTokenRequestIsJSON(t *testing.T) {
	c := withTokens()
	req := as(post(t, tokenPath("ns", "web-a"), "{}"), shim, "a", "uid-a")
	req.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
	if code, status := answer(t, c.serve(t), req); code != http.StatusUnsupportedMediaType {
		t.Errorf("answer %d %q", code, status.Message)
	}
}
