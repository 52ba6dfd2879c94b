// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
)

// onlyCertified has the server refuse connections without a certificate of the given authority and names.
func (o *Options) onlyCertified() (func(*tls.Config), error) {
	content, err := os.ReadFile(o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("--webhook-client-ca-file %s: there is no certificate in it", o.ClientCAFile)
	}
	return func(cfg *tls.Config) {
		cfg.ClientCAs, cfg.ClientAuth = roots, tls.RequireAndVerifyClientCert
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			if len(o.ClientNames) > 0 && !slices.Contains(o.ClientNames, state.PeerCertificates[0].Subject.CommonName) {
				return errors.New("the certificate has none of the names of --webhook-client-names")
			}
			return nil
		}
	}, nil
}
