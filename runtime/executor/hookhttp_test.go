// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/runtime/httpaction"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// runHTTPHook runs an httpGet hook against a real server.
func runHTTPHook(ctx context.Context, t *testing.T, server *httptest.Server, f *fakeRuntime, edit func(a *corev1.HTTPGetAction)) error {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{
		ID: "sb", State: plan.SandboxReady, Network: &plan.SandboxNetwork{IP: host},
	}}}
	f.running("app", nil)
	action := &corev1.HTTPGetAction{Path: "/bye?x=1", Port: intstr.FromInt32(int32(number))}
	pod := testPod(30, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: int32(number)}}
	})
	if edit != nil {
		edit(action)
	}
	h := &handlers{runtime: f, events: f, http: newHTTPClient(), differences: plan.AllDifferences()}
	_, err = h.Run(ctx, "app-id", pod, &pod.Spec.Containers[0], &corev1.LifecycleHandler{HTTPGet: action})
	return err
}

func TestHTTPHook(t *testing.T) {
	type seen struct{ Path, Agent, Accept, Host, Extra string }
	tests := map[string]struct {
		edit       func(a *corev1.HTTPGetAction)
		code       int
		want       seen
		wantEvents []string
	}{
		"any response is success": {
			code: http.StatusInternalServerError,
			want: seen{Path: "/bye?x=1", Agent: httpaction.HookUserAgent, Accept: "*/*"},
		},
		"named port and headers": {
			edit: func(a *corev1.HTTPGetAction) {
				a.Port = intstr.FromString("web")
				a.HTTPHeaders = []corev1.HTTPHeader{{Name: "X-Extra", Value: "1"}, {Name: "Host", Value: "h.example"}, {Name: "User-Agent", Value: "me"}}
			},
			want: seen{Path: "/bye?x=1", Agent: "me", Accept: "*/*", Host: "h.example", Extra: "1"},
		},
		"HTTPS falls back to HTTP": {
			edit:       func(a *corev1.HTTPGetAction) { a.Scheme = corev1.URISchemeHTTPS },
			want:       seen{Path: "/bye?x=1", Agent: httpaction.HookUserAgent, Accept: "*/*"},
			wantEvents: []string{"LifecycleHTTPFallback"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got seen
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = seen{Path: r.URL.String(), Agent: r.UserAgent(), Accept: r.Header.Get("Accept"), Extra: r.Header.Get("X-Extra")}
				if tc.want.Host != "" {
					got.Host = r.Host
				}
				if tc.code != 0 {
					w.WriteHeader(tc.code)
				}
			}))
			defer server.Close()
			f := newFakeRuntime()
			if err := runHTTPHook(t.Context(), t, server, f, tc.edit); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(tc.wantEvents, f.reasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPHookEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := runHTTPHook(ctx, t, server, newFakeRuntime(), nil); err == nil {
		t.Error("a hook without an answer succeeded")
	}
}

func TestHTTPHookErrors(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if err := runHTTPHook(t.Context(), t, server, newFakeRuntime(), nil); err == nil {
		t.Error("a refused connection is success")
	}
	for name, port := range map[string]intstr.IntOrString{
		"no such name": intstr.FromString("nosuch"), "zero": intstr.FromInt32(0), "too large": intstr.FromInt32(70000),
	} {
		if err := runHTTPHook(t.Context(), t, server, newFakeRuntime(), func(a *corev1.HTTPGetAction) { a.Port = port }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestHookHostNeedsAPodIP(t *testing.T) {
	for name, sandbox := range map[string]plan.SandboxStatus{
		"host network": {ID: "sb", State: plan.SandboxReady, Network: &plan.SandboxNetwork{}},
		"not ready":    {ID: "sb", State: plan.SandboxNotReady, Network: &plan.SandboxNetwork{IP: "10.0.0.1"}},
		"no address":   {ID: "sb", State: plan.SandboxReady, Network: &plan.SandboxNetwork{IP: "nonsense"}},
		"no network":   {ID: "sb", State: plan.SandboxReady},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRuntime()
			f.Sandboxes = []*fakeSandbox{{SandboxStatus: sandbox}}
			f.running("app", nil)
			h := &handlers{runtime: f, differences: plan.AllDifferences()}
			if host, err := h.hookHost(t.Context(), "app-id", &corev1.Pod{}, &corev1.HTTPGetAction{}); err == nil {
				t.Errorf("host %q", host)
			}
			if host, err := h.hookHost(t.Context(), "app-id", &corev1.Pod{}, &corev1.HTTPGetAction{Host: "h"}); err != nil || host != "h" {
				t.Errorf("host %q, %v", host, err)
			}
		})
	}
}

// A hook's redirects are the probes'.
func TestHookRedirects(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path)
		switch r.URL.Path {
		case "/bye":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		default:
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}
	}))
	defer server.Close()
	if err := runHTTPHook(t.Context(), t, server, newFakeRuntime(), nil); err != nil {
		t.Errorf("a redirect to another host is an answer: %v", err)
	}
	if diff := gocmp.Diff([]string{"/bye", "/here"}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	seen = nil
	err := runHTTPHook(t.Context(), t, server, newFakeRuntime(), func(a *corev1.HTTPGetAction) { a.Path = "/loop" })
	if err == nil || len(seen) != httpaction.MaxRedirects {
		t.Errorf("%d requests, %v", len(seen), err)
	}
}
