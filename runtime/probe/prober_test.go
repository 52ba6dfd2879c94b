// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// execer answers with what it holds and keeps what it was asked.
type execer struct {
	stdout, stderr string
	code           int32
	err            error

	id      string
	command []string
	timeout time.Duration
}

func (e *execer) ExecSync(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	e.id, e.command, e.timeout = id, cmd, timeout
	return []byte(e.stdout), []byte(e.stderr), e.code, e.err
}

func targetOf(handler corev1.ProbeHandler) target {
	c := &corev1.Container{Name: "c", LivenessProbe: &corev1.Probe{ProbeHandler: handler, TimeoutSeconds: 1}}
	return target{kind: liveness, pod: podOf(*c), container: c, spec: c.LivenessProbe, id: "a", ip: "127.0.0.1"}
}

func TestExecProbe(t *testing.T) {
	tests := map[string]struct {
		exec    execer
		want    outcome
		wantErr bool
	}{
		"success":         {execer{stdout: "fine"}, outcome{state: succeeded}, false},
		"failure":         {execer{stdout: "out", stderr: "err", code: 2}, outcome{failed, "outerr", "exit code 2"}, false},
		"long output":     {execer{stdout: strings.Repeat("x", 20<<10), code: 1}, outcome{failed, strings.Repeat("x", 10<<10), "exit code 1"}, false},
		"out of time":     {execer{err: status.Error(codes.DeadlineExceeded, "x")}, outcome{failed, `command timed out: "test fine" timed out after 3s`, "timeout"}, false},
		"wrapped timeout": {execer{err: fmt.Errorf("exec: %w", status.Error(codes.DeadlineExceeded, "x"))}, outcome{failed, `command timed out: "test fine" timed out after 3s`, "timeout"}, false},
		"its output is held open": {
			execer{err: status.Error(codes.Unknown, `failed to exec in container: failed to drain exec process "e" io: failed to drain exec process "e" io in 1s because io is still held by other processes`)},
			outcome{failed, `command "test fine" has ended, and a process that it left behind holds its output open`, "its output is held open"}, false,
		},
		"cannot be started": {execer{err: status.Error(codes.Unknown, "no such file")}, outcome{state: unknown}, true},
		"no gRPC error":     {execer{err: errors.New("no such file")}, outcome{state: unknown}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := targetOf(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "$(WORD)"}}})
			target.spec.TimeoutSeconds = 3
			target.container.Env = []corev1.EnvVar{{Name: "WORD", Value: "fine"}}
			got, err := newNodeProber(&tt.exec).probe(t.Context(), target)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v, want one: %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if tt.exec.id != "a" || tt.exec.timeout != 3*time.Second || tt.exec.command[1] != "fine" {
				t.Errorf("asked for %q in %q within %v", tt.exec.command, tt.exec.id, tt.exec.timeout)
			}
		})
	}
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func TestHTTPProbe(t *testing.T) {
	mux := http.NewServeMux()
	for path, code := range map[string]int{"/ok": 200, "/last": 399, "/missing": 404, "/broken": 500} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, "secret")
		})
	}
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, strings.Repeat("x", 1<<20)) })
	mux.HandleFunc("/query", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=b" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	tests := map[string]struct {
		path      string
		wantState state
		wantText  string // contained in the output
		wantBrief string
	}{
		"200":                     {"/ok", succeeded, "", ""},
		"404":                     {"/missing", failed, "HTTP probe failed with statuscode: 404", "HTTP 404"},
		"500 without its body":    {"/broken", failed, "HTTP probe failed with statuscode: 500", "HTTP 500"},
		"a 3xx without a place":   {"/last", warned, "Probe terminated redirects, Response body: secret", ""},
		"redirect on the host":    {"/local", failed, "HTTP probe failed with statuscode: 500", "HTTP 500"},
		"redirect elsewhere":      {"/away", warned, "Probe terminated redirects, Response body: ", ""},
		"redirect for ever":       {"/loop", failed, "stopped after 10 redirects", "stopped after 10 redirects"},
		"a body beyond the bound": {"/big", succeeded, "", ""},
		"query":                   {"/query?a=b", succeeded, "", ""},
		"a path that is no URL":   {"/%zz", failed, "HTTP probe failed with statuscode: 404", "HTTP 404"},
	}
	for scheme, server := range map[corev1.URIScheme]*httptest.Server{
		corev1.URISchemeHTTP: httptest.NewServer(mux), corev1.URISchemeHTTPS: httptest.NewTLSServer(mux), "": httptest.NewServer(mux),
	} {
		t.Cleanup(server.Close)
		number := portOf(t, server.Listener.Addr().String())
		for name, tt := range tests {
			t.Run(string(scheme)+" "+name, func(t *testing.T) {
				target := targetOf(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: tt.path, Port: intstr.FromInt(number), Scheme: scheme}})
				target.spec.TimeoutSeconds = 10
				got, err := newNodeProber(nil).probe(t.Context(), target)
				if err != nil {
					t.Fatal(err)
				}
				if got.state != tt.wantState || !strings.Contains(got.output, tt.wantText) || got.brief != tt.wantBrief {
					t.Errorf("outcome %+v, want %s %q %q", got, tt.wantState, tt.wantText, tt.wantBrief)
				}
				if got.state == failed && strings.Contains(got.output, "secret") {
					t.Errorf("a failure tells the body: %q", got.output)
				}
			})
		}
	}
}

func TestHTTPProbeRequest(t *testing.T) {
	type request struct {
		Host   string
		Header http.Header
	}
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = request{r.Host, r.Header} }))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	tests := map[string]struct {
		headers []corev1.HTTPHeader
		want    request
	}{
		"none":  {nil, request{address, http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}, "Connection": {"close"}}}},
		"given": {[]corev1.HTTPHeader{{Name: "User-Agent", Value: "me"}, {Name: "accept", Value: "text/plain"}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "Host", Value: "example.org"}}, request{"example.org", http.Header{"User-Agent": {"me"}, "Accept": {"text/plain"}, "X-A": {"1", "2"}, "Connection": {"close"}}}},
		"empty": {[]corev1.HTTPHeader{{Name: "Accept", Value: ""}}, request{address, http.Header{"User-Agent": {"kube-probe/1.36"}, "Connection": {"close"}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := targetOf(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portOf(t, address)), HTTPHeaders: tt.headers}})
			if out, err := newNodeProber(nil).probe(t.Context(), target); err != nil || out.state != succeeded {
				t.Fatalf("probe: %+v, %v", out, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPProbeTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	target := targetOf(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portOf(t, server.Listener.Addr().String()))}})
	out, err := newNodeProber(nil).probe(t.Context(), target)
	if err != nil || out.state != failed || out.brief != "timeout" {
		t.Errorf("outcome %+v, %v, want a failure by timeout", out, err)
	}
}

// closedPort is one that nothing listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	number := portOf(t, l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return number
}

func TestRefusedConnectionIsAFailure(t *testing.T) {
	number := closedPort(t)
	tests := map[string]corev1.ProbeHandler{
		"HTTP": {HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(number)}},
		"TCP":  {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(number)}},
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := newNodeProber(nil).probe(t.Context(), targetOf(handler))
			if err != nil || out.state != failed || !strings.Contains(out.output, "connection refused") || out.brief != "connection refused" {
				t.Errorf("outcome %+v, %v, want a failure by a refused connection", out, err)
			}
		})
	}
}

func TestTCPProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for name, host := range map[string]string{"pod IP": "", "host": "localhost"} {
		t.Run(name, func(t *testing.T) {
			target := targetOf(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web"), Host: host}})
			target.container.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: int32(portOf(t, l.Addr().String()))}}
			if out, err := newNodeProber(nil).probe(t.Context(), target); err != nil || out.state != succeeded {
				t.Errorf("outcome %+v, %v, want success", out, err)
			}
		})
	}
}

// healthServer answers for a service by name; "slow" waits for the caller.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	agent atomic.Pointer[string]
}

func (s *healthServer) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	agent := strings.Join(md.Get("user-agent"), ",")
	s.agent.Store(&agent)
	switch r.Service {
	case "", "good":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	case "bad":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "unimplemented":
		return nil, status.Error(codes.Unimplemented, "no such thing")
	default:
		return nil, status.Error(codes.NotFound, "unknown service")
	}
}

func TestGRPCProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	backend := &healthServer{}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, backend)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	tests := map[string]struct {
		service *string
		want    outcome
	}{
		"no service":        {nil, outcome{state: succeeded}},
		"a good service":    {new("good"), outcome{state: succeeded}},
		"a bad service":     {new("bad"), outcome{failed, `service unhealthy (responded with "NOT_SERVING")`, "gRPC NOT_SERVING"}},
		"a slow service":    {new("slow"), outcome{failed, "timeout: health rpc did not complete within 1s", "timeout"}},
		"no health service": {new("unimplemented"), outcome{failed, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no such thing", "no gRPC health service"}},
		"unknown service":   {new("other"), outcome{failed, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service", "gRPC NotFound"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := targetOf(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(portOf(t, l.Addr().String())), Service: tt.service}})
			got, err := newNodeProber(nil).probe(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if agent := *backend.agent.Load(); !strings.HasPrefix(agent, "kube-probe/1.36 ") {
				t.Errorf("user agent %q", agent)
			}
		})
	}
}

func TestGRPCProbeWithoutAServer(t *testing.T) {
	number := closedPort(t)
	target := targetOf(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(number)}})
	out, err := newNodeProber(nil).probe(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	want := outcome{failed, fmt.Sprintf("timeout: failed to connect service \"127.0.0.1:%d\" within 1s: context deadline exceeded", number), "timeout"}
	if diff := cmp.Diff(want, out, cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestProbeErrors(t *testing.T) {
	tests := map[string]struct {
		handler corev1.ProbeHandler
		want    string
	}{
		"no handler":        {corev1.ProbeHandler{}, "missing probe handler for p_ns(uid):c"},
		"unknown port name": {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}}, "invalid syntax"},
		"port 0":            {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(0)}}, "invalid port number: 0"},
		"port too high":     {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("65536")}}, "invalid port number: 65536"},
		"host is no host":   {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80), Host: "a b"}}, "invalid URL escape"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := newNodeProber(nil).probe(t.Context(), targetOf(tt.handler))
			if err == nil || !strings.Contains(err.Error(), tt.want) || out.state != unknown {
				t.Errorf("outcome %+v, error %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestBriefHasABound(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 500): strings.Repeat("x", 128), "x" + strings.Repeat("ä", 250): "x" + strings.Repeat("ä", 63),
	} {
		if got := brief(&url.Error{Op: "Get", URL: "http://x/", Err: errors.New(text)}); got != want {
			t.Errorf("brief = %q, want %q", got, want)
		}
	}
}
