// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/transport"
)

const editor = "system:serviceaccount:team:editor"

// Whoever is not the shim of a node that lives gets nothing of that node.
func TestWatchOfAnotherIsRefused(t *testing.T) {
	tests := map[string]struct {
		user, node, uid, path string
		change                func(*cluster)
		code                  int
		words                 string
	}{
		"node a asks for node b":              {shim, "a", "uid-a", watchPath("b"), nil, http.StatusForbidden, "is bound to node a, not to b"},
		"a token that is bound to no node":    {shim, "", "", watchPath("a"), nil, http.StatusForbidden, "a token that is not bound to a node"},
		"a token without the node's UID":      {shim, "a", "", watchPath("a"), nil, http.StatusForbidden, "a token that is not bound to a node"},
		"an editor who bound his own token":   {editor, "a", "uid-a", watchPath("a"), nil, http.StatusForbidden, "lacks the verb report on nodeworkloads"},
		"a node that was deleted":             {shim, "a", "uid-a", watchPath("a"), func(c *cluster) { c.set("a", "") }, http.StatusForbidden, "the node a of the token of " + shim + " does not exist"},
		"a node that has another's name":      {shim, "a", "uid-a", watchPath("a"), func(c *cluster) { c.set("a", "uid-new") }, http.StatusForbidden, "bound to an earlier node a"},
		"all nodes":                           {shim, "a", "uid-a", pathVersion + "/nodeobjects?watch=true", nil, http.StatusBadRequest, "the field selector must be metadata.name=NODE"},
		"all nodes but one":                   {shim, "a", "uid-a", pathVersion + "/nodeobjects?watch=1&fieldSelector=metadata.name%21%3Db", nil, http.StatusBadRequest, "metadata.name=NODE"},
		"its node and more of the selector":   {shim, "a", "uid-a", watchPath("a") + "%2Cspec.x%3Dy", nil, http.StatusBadRequest, "metadata.name=NODE"},
		"its node by labels":                  {shim, "a", "uid-a", watchPath("a") + "&labelSelector=x", nil, http.StatusBadRequest, "there is no label selector"},
		"the API server does not answer":      {shim, "a", "uid-a", watchPath("a"), func(c *cluster) { c.down = http.ErrServerClosed }, http.StatusServiceUnavailable, "ask whether " + shim},
		"an object by its name":               {shim, "a", "uid-a", pathVersion + "/nodeobjects/secret.x", nil, http.StatusNotFound, "could not find the requested resource"},
		"the watch path of old clients":       {shim, "a", "uid-a", pathVersion + "/watch/nodeobjects", nil, http.StatusNotFound, "could not find"},
		"another's name in a second selector": {shim, "a", "uid-a", watchPath("b") + "&fieldSelector=metadata.name%3Da", nil, http.StatusForbidden, "not to b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			if tc.change != nil {
				tc.change(c)
			}
			code, status := answer(t, c.serve(t), as(get(t, tc.path), tc.user, tc.node, tc.uid))
			if code != tc.code || !strings.Contains(status.Message, tc.words) {
				t.Errorf("answer %d %q, want %d %q", code, status.Message, tc.code, tc.words)
			}
			if len(c.watched) != 0 {
				t.Errorf("the objects of %q were asked for", c.watched)
			}
		})
	}
}

// What is asked about a user is the same for the shims of all nodes, and asked once in a while.
func TestOneQuestionForAllShims(t *testing.T) {
	c := newCluster()
	h := c.handler()
	for _, name := range []string{"a", "b", "a"} {
		req := as(get(t, "/"), shim, name, "uid-"+name)
		w := &asked{}
		authenticated(front(t), w).ServeHTTP(httptest.NewRecorder(), req)
		c, err := bound(w.user)
		if err := errors.Join(err, h.gate.enter(t.Context(), c)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.reviewed) != 1 {
		t.Fatalf("%d questions", len(c.reviewed))
	}
	got := c.reviewed[0]
	if got.User != shim || len(got.Extra) != 0 || !cmp.Equal(got.Groups, []string{"system:serviceaccounts"}) ||
		got.ResourceAttributes.Verb != "report" || got.ResourceAttributes.Resource != "nodeworkloads" ||
		got.ResourceAttributes.Group != "managedworkload.dev" || got.ResourceAttributes.Namespace != "" {
		t.Errorf("question %+v, %+v", got, got.ResourceAttributes)
	}
}

// A shim that acts as its node gets what the shim of that node gets, its tokens bound to the Node that is
// there. All nodes need one question: they have their rights as a group.
func TestAShimThatActsAsItsNode(t *testing.T) {
	c := withTokens()
	c.reports[""] = true
	server := c.serve(t)
	ask := func(node, of string, groups ...string) *httptest.ResponseRecorder {
		req := post(t, tokenPath("ns", "web-"+of), "{}")
		transport.SetAuthProxyHeaders(req, "system:node:"+node, "", groups, nil)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, req)
		return w
	}
	if w := ask("a", "a", "system:nodes", "system:authenticated"); w.Code != http.StatusCreated {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	if ref := c.asked[0].Spec.BoundObjectRef; ref.Name != "a" || ref.UID != "uid-a" {
		t.Errorf("token bound to %+v", ref)
	}
	if w := ask("b", "a", "system:nodes", "system:authenticated"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "there is no NodeWorkload ns/web-a on node b") {
		t.Errorf("of another node: answer %d %s", w.Code, w.Body)
	}
	if w := ask("gone", "a", "system:nodes", "system:authenticated"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "the node gone of the token of system:node:gone does not exist") {
		t.Errorf("of a node that is gone: answer %d %s", w.Code, w.Body)
	}
	if len(c.reviewed) != 1 || c.reviewed[0].User != "" || !slices.Contains(c.reviewed[0].Groups, "system:nodes") {
		t.Errorf("questions %+v", c.reviewed)
	}
	if w := ask("a", "a", "system:authenticated"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "not bound to a node") {
		t.Errorf("by its name alone: answer %d %s", w.Code, w.Body)
	}
}
