// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates of clients.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Where the API server shows a certificate, nobody else is answered: not with none, not with one of
// another authority, and not with another name of the same one, as each kubelet has.
func TestOnlyCertified(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.certificate.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		names []string
		shown []tls.Certificate
		want  bool
	}{
		"the API server":     {[]string{"kube-apiserver"}, []tls.Certificate{own.client(t, "kube-apiserver")}, true},
		"any name":           {nil, []tls.Certificate{own.client(t, "someone")}, true},
		"another name":       {[]string{"kube-apiserver"}, []tls.Certificate{own.client(t, "system:node:a")}, false},
		"another authority":  {[]string{"kube-apiserver"}, []tls.Certificate{other.client(t, "kube-apiserver")}, false},
		"without one at all": {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{ClientCAFile: file, ClientNames: tc.names}
			certified, err := o.onlyCertified()
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			certified(server.TLS)
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = tc.shown
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(req)
			if err == nil {
				_ = res.Body.Close()
			}
			if (err == nil) != tc.want {
				t.Errorf("error %v, want an answer: %t", err, tc.want)
			}
		})
	}
	for name, file := range map[string]string{"no file": filepath.Join(t.TempDir(), "none"), "no certificate": os.DevNull} {
		o := Options{ClientCAFile: file}
		if _, err := o.onlyCertified(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
