// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

const (
	// hookUserAgent is the kubelet's. (kubelet probe/http/request.go:userAgent)
	hookUserAgent = "kube-lifecycle/1.36"
	// maxHookBody is how much of a response is read, so that the connection can
	// be used again, in bytes. (kubelet lifecycle/handlers.go)
	maxHookBody  = 10 << 10
	maxRedirects = 10
)

// newHTTPClient returns the client of httpGet hooks: certificates are not
// verified, and redirects are followed on the same host only.
// (kubelet kubelet.go:NewMainKubelet, probe/http/http.go:RedirectChecker)
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the kubelet verifies no hook's certificate either
			DisableKeepAlives: true,                                  // a hook is one request: nothing is left behind
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// httpGet sends the request of a hook. Any response is success. HTTPS falls
// back to HTTP when the server speaks that, with an event.
// (kubelet lifecycle/handlers.go:runHTTPHandler)
func (h *handlers) httpGet(ctx context.Context, containerID string, pod *corev1.Pod, c *corev1.Container,
	action *corev1.HTTPGetAction) error {
	host, err := h.hookHost(ctx, containerID, action)
	if err != nil {
		return err
	}
	req, err := hookRequest(ctx, host, c, action)
	if err != nil {
		return err
	}
	err = h.send(req)
	if !speaksHTTP(err) {
		return err
	}
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	if h.send(plain) != nil {
		return err
	}
	h.events.Event(pod, "", corev1.EventTypeWarning, "LifecycleHTTPFallback",
		fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
	return nil
}

// hookHost is the host of a hook: its own, or the pod's address as the runtime
// has it now. A pod on the host's network has none there.
func (h *handlers) hookHost(ctx context.Context, containerID string, action *corev1.HTTPGetAction) (string, error) {
	if action.Host != "" {
		return action.Host, nil
	}
	c, err := h.runtime.ContainerStatus(ctx, containerID)
	if err != nil {
		return "", fmt.Errorf("unable to get pod, event handlers may be invalid: %w", err)
	}
	sandbox, err := h.runtime.SandboxStatus(ctx, c.SandboxID)
	if err != nil {
		return "", fmt.Errorf("unable to get pod status, event handlers may be invalid: %w", err)
	}
	ips := sandboxIPs(&sandbox)
	if sandbox.State != plan.SandboxReady || len(ips) == 0 {
		return "", fmt.Errorf("failed to find networking container: sandbox %s has no IP", sandbox.ID)
	}
	return ips[0], nil
}

// sandboxIPs are the addresses of a sandbox, the primary one first; none if one
// of them is no address. (kubelet
// kuberuntime_sandbox.go:determinePodSandboxIPs)
func sandboxIPs(s *plan.SandboxStatus) []string {
	if s.Network == nil {
		return nil
	}
	var ips []string
	for i, ip := range append([]string{s.Network.IP}, s.Network.AdditionalIPs...) {
		if i == 0 && ip == "" {
			continue
		}
		if net.ParseIP(ip) == nil {
			return nil
		}
		ips = append(ips, ip)
	}
	return ips
}

// hookRequest builds the request of a hook. (kubelet probe/http/request.go)
func hookRequest(ctx context.Context, host string, c *corev1.Container, action *corev1.HTTPGetAction) (*http.Request, error) {
	port, err := resolvePort(action.Port, c)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, hookURL(host, port, action).String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range action.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", hookUserAgent)
	}
	if values, ok := req.Header["Accept"]; !ok {
		req.Header.Set("Accept", "*/*")
	} else if values[0] == "" {
		req.Header.Del("Accept")
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}

func hookURL(host string, port int, action *corev1.HTTPGetAction) *url.URL {
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme = strings.ToLower(string(action.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	return u
}

// resolvePort finds a port by number or by the name the container gives it; a
// name that is a number counts as one. (kubelet
// probe/util.go:ResolveContainerPort)
func resolvePort(port intstr.IntOrString, c *corev1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		number = 0
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
		if number == 0 {
			parsed, err := strconv.Atoi(port.StrVal)
			if err != nil {
				return 0, err // in the kubelet's words
			}
			number = parsed
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", number)
	}
	return number, nil
}

func (h *handlers) send(req *http.Request) error {
	resp, err := h.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength <= maxHookBody {
		_, _ = io.CopyN(io.Discard, resp.Body, maxHookBody)
	}
	return nil
}

// speaksHTTP tells whether an HTTPS request failed because the server speaks
// HTTP.
func speaksHTTP(err error) bool {
	var urlErr *url.Error
	return errors.As(err, &urlErr) && strings.Contains(urlErr.Err.Error(), "server gave HTTP response to HTTPS client")
}
