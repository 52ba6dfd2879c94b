// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"crypto/x509/pkix"
	"fmt"
	"os"
)

// frontProxy is the name by which kube-apiserver shows itself to aggregated APIs.
const frontProxy = "front-proxy-client"

// writeFrontProxy writes the certificate with which kube-apiserver vouches for the users of
// requests that it forwards to aggregated APIs. Its authority is another one than that of
// clients: a client's certificate must not pass for kube-apiserver.
func (s *Stack) writeFrontProxy() error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	cert, key, err := ca.issue(pkix.Name{CommonName: frontProxy, Organization: []string{frontProxy}})
	if err != nil {
		return err
	}
	for file, data := range map[string][]byte{
		"front-proxy-ca.crt": ca.certPEM(), "front-proxy-client.crt": cert, "front-proxy-client.key": key,
	} {
		if err := os.WriteFile(s.layout.pki(file), data, 0o600); err != nil {
			return fmt.Errorf("write the front proxy's %s: %w", file, err)
		}
	}
	return nil
}

func (s *Stack) frontProxyFlags() []string {
	return []string{
		"--requestheader-client-ca-file=" + s.layout.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.layout.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + s.layout.pki("front-proxy-client.key"),
	}
}
