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
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/managedworkload/managedworkload/runtime/httpaction"
)

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
	request, err := httpaction.NewRequest(ctx, t.spec.HTTPGet, t.container, t.ip, httpaction.ProbeUserAgent)
	if err != nil {
		return outcome{state: unknown}, err
	}
	client := &http.Client{Timeout: t.timeout(), Transport: p.transport, CheckRedirect: httpaction.CheckRedirect}
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
