// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package httpaction

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxRedirects is how many redirects of one request are followed.
const MaxRedirects = 10

// The user agents, as the kubelet's of the version this project follows.
const (
	ProbeUserAgent = "kube-probe/1.36"
	HookUserAgent  = "kube-lifecycle/1.36"
)

// NewRequest makes the request of an action; host is where it goes unless the
// action names one. Headers given twice are both sent, an empty Accept sends none,
// and Host names the virtual host.
func NewRequest(ctx context.Context, action *corev1.HTTPGetAction, c *corev1.Container, host, userAgent string) (*http.Request, error) {
	port, err := Port(action.Port, c)
	if err != nil {
		return nil, err
	}
	if action.Host != "" {
		host = action.Host
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address(host, port, action).String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	if _, given := request.Header["User-Agent"]; !given {
		request.Header.Set("User-Agent", userAgent)
	}
	if _, given := request.Header["Accept"]; !given {
		request.Header.Set("Accept", "*/*")
	} else if request.Header.Get("Accept") == "" {
		request.Header.Del("Accept")
	}
	request.Host = request.Header.Get("Host")
	return request, nil
}

// address keeps a path that is no URL as it stands.
func address(host string, port int, action *corev1.HTTPGetAction) *url.URL {
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

// Port finds a port by its number or by the name that the container gives it; a
// name that is a number counts as one. An error is in the kubelet's words.
func Port(value intstr.IntOrString, c *corev1.Container) (int, error) {
	number, err := lookUp(value, c)
	if err != nil {
		return 0, err
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", number)
	}
	return number, nil
}

func lookUp(value intstr.IntOrString, c *corev1.Container) (int, error) {
	if value.Type != intstr.String {
		return value.IntValue(), nil
	}
	for _, p := range c.Ports {
		if p.Name == value.StrVal {
			return int(p.ContainerPort), nil
		}
	}
	return strconv.Atoi(value.StrVal)
}

// CheckRedirect is for an http.Client: redirects are followed on the same host
// only, and what leads elsewhere is the response.
func CheckRedirect(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= MaxRedirects {
		return fmt.Errorf("stopped after %d redirects", MaxRedirects)
	}
	return nil
}
