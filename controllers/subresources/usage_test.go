// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
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

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const postPath = pathVersion + "/nodeusages"

// usageBody is what the shim of a node says of a NodeWorkload at a time.
func usageBody(node, workload, cpu string, at int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"timestamp":"2026-01-01T00:00:%02dZ","window":"1m0s","usage":{"cpu":"2","memory":"4Gi"},"workloads":[
		{"metadata":{"namespace":"ns","name":%q},"usage":{"cpu":%q,"memory":"64Mi","ephemeral-storage":"1Mi"},"containers":[{"name":"c","usage":{"cpu":%q,"memory":"60Mi"}}]},
		{"metadata":{"namespace":"ns","name":"of-another"},"usage":{"cpu":"99"},"containers":[]}]}`, node, at, workload, cpu, cpu)
}

func posted(t *testing.T, h http.Handler, node, body string) {
	t.Helper()
	code, status := answer(t, h, as(post(t, postPath, body), shim, node, "uid-"+node))
	if code != http.StatusCreated {
		t.Fatalf("the post of node %s: %d %s", node, code, status.Message)
	}
}

// readUsages is what a person reads, a line each.
func readUsages(t *testing.T, h http.Handler, path string) (lines []string, header http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, as(get(t, pathVersion+path), "jane", "", ""))
	var list struct{ Items []v1alpha1.WorkloadUsage }
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, u := range list.Items {
		line := fmt.Sprintf("%s/%s %s %s %s %s", u.Namespace, u.Name, u.WorkloadName, u.NodeName, u.Usage.Cpu(), u.Usage.Memory())
		for _, c := range u.Containers {
			line += fmt.Sprintf(" %s=%s", c.Name, c.Usage.Cpu())
		}
		lines = append(lines, line)
	}
	return lines, w.Header()
}

// What shims post of NodeWorkloads on their nodes, people read by namespace; it is replaced by the next
// post, and forgotten after three minutes.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withTokens()
		h := c.serve(t)
		posted(t, h, "a", usageBody("a", "web-a", "250m", 0))
		posted(t, h, "b", usageBody("b", "web-b", "1500m", 0))
		posted(t, h, "a", usageBody("a", "web-a", "300m", 1))
		want := []string{"ns/web-a web a 300m 64Mi c=300m", "ns/web-b web b 1500m 64Mi c=1500m"}
		for path, want := range map[string][]string{
			"/workloadusages": want, "/namespaces/ns/workloadusages?limit=500": want, "/namespaces/other/workloadusages": nil,
			"/nodeusages": {"/a   2 4Gi", "/b   2 4Gi"},
		} {
			if got, header := readUsages(t, h, path); !cmp.Equal(want, got) || header.Get("Warning") != "" {
				t.Errorf("%s: %q, want %q, warning %q", path, got, want, header.Get("Warning"))
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, as(get(t, postPath+"/b"), "jane", "", ""))
		var one v1alpha1.NodeUsage
		if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil || one.Name != "b" || one.Managed.Cpu().String() != "1500m" || len(one.Workloads) != 0 {
			t.Errorf("%d %s: %v", w.Code, w.Body, err)
		}
		time.Sleep(usageLife - time.Second)
		posted(t, h, "b", usageBody("b", "web-b", "1", 2))
		time.Sleep(time.Second)
		if got, _ := readUsages(t, h, "/workloadusages"); !cmp.Equal(got, []string{"ns/web-b web b 1 64Mi c=1"}) {
			t.Errorf("after three minutes: %q", got)
		}
		for _, path := range []string{postPath + "/a", pathVersion + "/namespaces/ns/workloadusages/web-a"} {
			if code, status := answer(t, h, as(get(t, path), "jane", "", "")); code != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, code, status.Message)
			}
		}
	})
}

// A post counts only from the shim of the node, and names what is wrong with it.
func TestUsageIsRefused(t *testing.T) {
	body := usageBody("a", "web-a", "1", 0)
	many := `{"metadata":{"name":"a"},"workloads":[` + strings.TrimSuffix(strings.Repeat(`{"metadata":{}},`, 501), ",") + `]}`
	containers := `{"metadata":{"name":"a"},"workloads":[{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"c"},`, 101), ",") + `]}]}`
	tests := map[string]struct {
		user, node, uid, body string
		change                func(*cluster)
		code                  int
		words                 string
	}{
		"another node's":            {shim, "b", "uid-b", body, nil, 403, "bound to node b, not to a"},
		"an editor's own token":     {editor, "a", "uid-a", body, nil, 403, "lacks the verb report"},
		"a token bound to no node":  {shim, "", "", body, nil, 403, "not bound to a node"},
		"an earlier node's":         {shim, "a", "uid-old", body, nil, 403, "bound to an earlier node a"},
		"no API server":             {shim, "a", "uid-a", body, func(c *cluster) { c.down = errors.New("away") }, 503, "away"},
		"no JSON":                   {shim, "a", "uid-a", "x", nil, 400, "read the NodeUsage"},
		"too many workloads":        {shim, "a", "uid-a", many, nil, 400, "workloads: 501 are more than 500"},
		"too many containers":       {shim, "a", "uid-a", containers, nil, 400, "workloads[0].containers: 101 are more than 100"},
		"no name of a container":    {shim, "a", "uid-a", `{"metadata":{"name":"a"},"workloads":[{"containers":[{"name":"a/b"}]}]}`, nil, 400, "workloads[0].containers[0].name: "},
		"too large":                 {shim, "a", "uid-a", strings.Repeat(" ", maxUsageBody+1), nil, 413, "limit is"},
		"a quantity that is no one": {shim, "a", "uid-a", `{"metadata":{"name":"a"},"usage":{"cpu":"x"}}`, nil, 400, "read the NodeUsage"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := withTokens()
			if tc.change != nil {
				tc.change(c)
			}
			h := c.handler()
			code, status := answer(t, h.routes(front(t)), as(post(t, postPath, tc.body), tc.user, tc.node, tc.uid))
			if code != tc.code || !strings.Contains(status.Message, tc.words) || len(h.usages.nodes) != 0 {
				t.Errorf("%d %q, want %d %q; %d nodes are kept", code, status.Message, tc.code, tc.words, len(h.usages.nodes))
			}
		})
	}
}

// No figure of a shim makes others wrong: what is negative is nothing, and sums do not overflow.
func TestUsageIsBounded(t *testing.T) {
	h := withTokens().serve(t)
	posted(t, h, "a", strings.NewReplacer("64Mi", "-5", `"300m"`, `"1e30"`).Replace(usageBody("a", "web-a", "300m", 0)))
	want := []string{"ns/web-a web a 1125899906842624n 0 c=1125899906842624n"}
	if got, _ := readUsages(t, h, "/workloadusages"); !cmp.Equal(want, got) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Selectors and watches, which a list cannot do, are refused instead of ignored.
func TestUsageSelectors(t *testing.T) {
	h := withTokens().serve(t)
	for _, query := range []string{"watch=true", "watch=1", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Da"} {
		for _, path := range []string{"/nodeusages", "/workloadusages", "/namespaces/ns/workloadusages"} {
			if code, status := answer(t, h, as(get(t, pathVersion+path+"?"+query), "jane", "", "")); code != http.StatusBadRequest {
				t.Errorf("%s?%s: %d %s", path, query, code, status.Message)
			}
		}
	}
}
