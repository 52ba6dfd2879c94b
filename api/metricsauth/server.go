// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package metricsauth

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The reviews of one process do not take up the requests of its work. What they are about is bounded
// before: that of trusted and of other tokens alike, with two reviews each.
const (
	reviewQPS   = 5
	reviewBurst = 20
	reviews     = 4
)

// Options serve metrics on an address; "0" turns them off.
func Options(address string) metricsserver.Options {
	o := metricsserver.Options{BindAddress: address}
	if address == "0" || loopback(address) {
		return o
	}
	o.SecureServing = true // with a certificate that is made at start
	o.FilterProvider = filter
	o.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }}
	return o
}

// loopback reports whether only the machine itself reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// filter asks the API server of the configuration.
func filter(cfg *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter, cfg.QPS, cfg.Burst = nil, reviews*reviewQPS, reviews*reviewBurst
	tokens, err := typedauthenticationv1.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for token reviews: %w", err)
	}
	access, err := typedauthorizationv1.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for access reviews: %w", err)
	}
	g := newGate(tokens.TokenReviews(), access.SubjectAccessReviews())
	return func(log logr.Logger, next http.Handler) (http.Handler, error) { return g.guard(log, next), nil }, nil
}
