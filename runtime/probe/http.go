// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

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
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const maxRedirects = 10

// dialer lets a closed connection leave at once: many probes would otherwise fill
// the node with sockets in TIME_WAIT. (pkg/probe/dialer_others.go)
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		Control: func(_, _ string, conn syscall.RawConn) error {
			var optErr error
			err := conn.Control(func(fd uintptr) {
				optErr = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
			})
			return errors.Join(err, optErr)
		},
	}
}

type httpProber struct {
	transport *http.Transport
}

// newHTTPProber: no proxy of the node, no kept connections, and certificates are
// not verified. (pkg/probe/http/http.go:NewWithTLSConfig)
func newHTTPProber() httpProber {
	return httpProber{transport: utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet: it asks for health, not for identity
		DisableKeepAlives:  true,
		DisableCompression: true,
		Proxy:              http.ProxyURL(nil),
		DialContext:        dialer(0).DialContext,
	})}
}

func (p httpProber) probe(ctx context.Context, t target) (outcome, error) {
	request, err := newRequest(ctx, t)
	if err != nil {
		return outcome{state: unknown}, err
	}
	client := &http.Client{Timeout: t.timeout(), Transport: p.transport, CheckRedirect: checkRedirect}
	response, err := client.Do(request)
	if err != nil {
		return outcome{state: failed, output: err.Error(), brief: brief(err)}, nil
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil {
		return outcome{state: failed}, err
	}
	return judge(response.StatusCode, body), nil
}

// judge: the text of a failure never holds the body. (http.go:DoHTTPProbe)
func judge(code int, body []byte) outcome {
	switch {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return outcome{
			state:  failed,
			output: fmt.Sprintf("HTTP probe failed with statuscode: %d", code),
			brief:  fmt.Sprintf("HTTP %d", code),
		}
	case code >= http.StatusMultipleChoices:
		return outcome{state: warned, output: fmt.Sprintf("Probe terminated redirects, Response body: %v", string(body))}
	default:
		return outcome{state: succeeded}
	}
}

// checkRedirect stays on the host. (http.go:RedirectChecker)
func checkRedirect(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// newRequest: headers given twice are both sent, an empty Accept sends none, Host
// names the virtual host. (pkg/probe/http/request.go:NewRequestForHTTPGetAction)
func newRequest(ctx context.Context, t target) (*http.Request, error) {
	get := t.spec.HTTPGet
	number, err := port(get.Port, t.container)
	if err != nil {
		return nil, err
	}
	host := get.Host
	if host == "" {
		host = t.ip
	}
	address, err := url.Parse(get.Path)
	if err != nil {
		address = &url.URL{Path: get.Path}
	}
	address.Scheme = strings.ToLower(string(get.Scheme))
	if address.Scheme == "" {
		address.Scheme = "http"
	}
	address.Host = net.JoinHostPort(host, strconv.Itoa(number))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, header := range get.HTTPHeaders {
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
