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
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/httpaction"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// maxHookBody is how much of a response is read, so that the connection can
// be used again, in bytes. (kubelet lifecycle/handlers.go)
const maxHookBody = 10 << 10

// newHTTPClient returns the client of httpGet hooks: certificates are not
// verified, and redirects are followed on the same host only.
// (kubelet kubelet.go:NewMainKubelet)
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the kubelet verifies no hook's certificate either
			DisableKeepAlives: true,                                  // a hook is one request: nothing is left behind
		},
		CheckRedirect: httpaction.CheckRedirect,
	}
}

// httpGet sends the request of a hook. Any response is success. HTTPS falls
// back to HTTP when the server speaks that, with an event.
// (kubelet lifecycle/handlers.go:runHTTPHandler)
func (h *handlers) httpGet(ctx context.Context, containerID string, pod *corev1.Pod, c *corev1.Container,
	action *corev1.HTTPGetAction) error {
	host, err := h.hookHost(ctx, containerID, pod, action)
	if err != nil {
		return err
	}
	req, err := httpaction.NewRequest(ctx, action, c, host, httpaction.HookUserAgent)
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

// hookHost is the host of a hook: its own, or the address of the container's sandbox
// as the runtime has it now. A pod on the host's network has none there.
func (h *handlers) hookHost(ctx context.Context, containerID string, pod *corev1.Pod, action *corev1.HTTPGetAction) (string, error) {
	switch {
	case action.Host != "":
		return action.Host, nil
	case !h.differences.HookInOwnSandbox:
		return h.podHost(ctx, pod)
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

// podHost is the address of the pod's newest sandbox.
// (kubelet lifecycle/handlers.go:runHTTPHandler)
func (h *handlers) podHost(ctx context.Context, pod *corev1.Pod) (string, error) {
	status, err := h.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return "", fmt.Errorf("unable to get pod status, event handlers may be invalid: %w", err)
	}
	if len(status.IPs) == 0 {
		return "", fmt.Errorf("failed to find networking container: pod %s has no IP", podspec.Format(pod))
	}
	return status.IPs[0], nil
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

// speaksHTTP reports whether an HTTPS request failed because the server speaks
// HTTP.
func speaksHTTP(err error) bool {
	var urlErr *url.Error
	return errors.As(err, &urlErr) && strings.Contains(urlErr.Err.Error(), "server gave HTTP response to HTTPS client")
}
