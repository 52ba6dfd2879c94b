// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = a.sign(t, template)
	return a
}

// sign makes a certificate, its own if it has none yet.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, parentKey := a.certificate, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// client is a client's certificate of a name.
func (a *authority) client(t *testing.T, name string, usage x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	certificate, key := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	return &tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// trustOf is the ConfigMap in which the API server names its front proxy.
func trustOf(a *authority) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
		Data: map[string]string{
			"requestheader-client-ca-file":       a.pem(),
			"requestheader-allowed-names":        `["front-proxy"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-uid-headers":          `["X-Remote-Uid"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}
}

// recognitions counts the requests by which a server has recognised a caller.
type recognitions struct{ atomic.Int64 }

func (r *recognitions) watch(server *httptest.Server) {
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return handshake.WithRecognition(ctx, func() { r.Add(1) })
	}
}

// tlsServer serves the aggregated API as the manager does.
func tlsServer(t *testing.T, h *handler, proxy *frontProxy) *httptest.Server {
	t.Helper()
	server, _ := recognisingServer(t, h, proxy)
	return server
}

func recognisingServer(t *testing.T, h *handler, proxy *frontProxy) (*httptest.Server, *recognitions) {
	t.Helper()
	server := httptest.NewUnstartedServer(h.routes(proxy))
	recognised := &recognitions{}
	recognised.watch(server)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, recognised
}

// caller connects with a certificate, or without one.
func connect(t *testing.T, server *httptest.Server, certificate *tls.Certificate) *http.Client {
	t.Helper()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Only the front proxy is believed, and its handshakes have turns of their own. Whoever connects directly is refused,
// with whatever headers, also when he only asks what there is.
func TestOnlyTheFrontProxyIsBelieved(t *testing.T) {
	proxies, others := newAuthority(t), newAuthority(t)
	client := fake.NewClientBuilder().WithObjects(trustOf(proxies)).Build()
	proxy := &frontProxy{reader: client, log: logr.Discard()}
	proxy.read(t.Context())
	server, recognised := recognisingServer(t, newCluster().handler(), proxy)
	tests := map[string]struct {
		certificate *tls.Certificate
		want        int
	}{
		"the front proxy":           {proxies.client(t, "front-proxy", x509.ExtKeyUsageClientAuth), http.StatusOK},
		"no certificate":            {nil, http.StatusUnauthorized},
		"another's certificate":     {others.client(t, "front-proxy", x509.ExtKeyUsageClientAuth), http.StatusUnauthorized},
		"another name":              {proxies.client(t, "shim", x509.ExtKeyUsageClientAuth), http.StatusUnauthorized},
		"a certificate for servers": {proxies.client(t, "front-proxy", x509.ExtKeyUsageServerAuth), http.StatusUnauthorized},
		"its own authority":         {selfSigned(t), http.StatusUnauthorized},
	}
	for name, tc := range tests {
		for _, path := range []string{pathGroups, pathVersion, pathVersion + "/nodeobjects", "/metrics"} {
			t.Run(name+path, func(t *testing.T) {
				want := tc.want
				if path == "/metrics" && want == http.StatusOK {
					want = http.StatusNotFound
				}
				before := recognised.Load()
				if got := ask(t, connect(t, server, tc.certificate), server.URL+path, shim); got != want {
					t.Errorf("answer %d, want %d", got, want)
				}
				if got := recognised.Load() > before; got != (tc.want == http.StatusOK) {
					t.Errorf("recognised: %t", got)
				}
			})
		}
	}
	if got := ask(t, connect(t, server, tests["the front proxy"].certificate), server.URL+pathVersion, ""); got != http.StatusUnauthorized {
		t.Errorf("answer %d to a front proxy that names no user", got)
	}
}

// selfSigned is a certificate with the names that count, of no authority.
func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	return (&authority{}).client(t, "front-proxy", x509.ExtKeyUsageClientAuth)
}

// ask sends a request in a user's name, with his extras, and returns the answer's code.
func ask(t *testing.T, client *http.Client, url, user string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		as(req, user, "a", "uid-a")
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// When the API server gets another front proxy, the former one is believed no more. When it does
// not answer, nothing changes; when it has none, no one is believed.
func TestTheFrontProxyChanges(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	c := fake.NewClientBuilder().WithObjects(trustOf(first)).Build()
	proxy := &frontProxy{reader: c, log: logr.Discard()}
	server := tlsServer(t, newCluster().handler(), proxy)
	former := connect(t, server, first.client(t, "front-proxy", x509.ExtKeyUsageClientAuth))
	next := connect(t, server, second.client(t, "front-proxy", x509.ExtKeyUsageClientAuth))
	check := func(when string, wantFormer, wantNext int) {
		t.Helper()
		proxy.read(t.Context())
		if a, b := ask(t, former, server.URL+pathVersion, shim), ask(t, next, server.URL+pathVersion, shim); a != wantFormer || b != wantNext {
			t.Errorf("%s: answers %d and %d, want %d and %d", when, a, b, wantFormer, wantNext)
		}
	}
	check("at first", http.StatusOK, http.StatusUnauthorized)
	if err := c.Update(t.Context(), trustOf(second)); err != nil {
		t.Fatal(err)
	}
	check("with another authority", http.StatusUnauthorized, http.StatusOK)
	proxy.reader = newCluster().downed()
	check("without an answer", http.StatusUnauthorized, http.StatusOK)
	proxy.reader = c
	renamed := trustOf(second)
	renamed.Data["requestheader-allowed-names"] = `["another"]`
	if err := c.Update(t.Context(), renamed); err != nil {
		t.Fatal(err)
	}
	check("with another name", http.StatusUnauthorized, http.StatusUnauthorized)
	for name, data := range map[string]map[string]string{
		"without a front proxy":   {"client-ca-file": second.pem()},
		"with what is no list":    {"requestheader-client-ca-file": second.pem(), "requestheader-username-headers": "X-Remote-User"},
		"without a user's header": {"requestheader-client-ca-file": second.pem()},
	} {
		if err := c.Update(t.Context(), trustOf(second)); err != nil {
			t.Fatal(err)
		}
		check("again", http.StatusUnauthorized, http.StatusOK)
		broken := trustOf(second)
		broken.Data = data
		if err := c.Update(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		check(name, http.StatusUnauthorized, http.StatusUnauthorized)
		if proxy.problem == "" {
			t.Errorf("%s: no reason", name)
		}
	}
	if err := c.Delete(t.Context(), trustOf(second)); err != nil {
		t.Fatal(err)
	}
	check("without the ConfigMap", http.StatusUnauthorized, http.StatusUnauthorized)
}

// A read that gets no answer ends: the next one learns of another front proxy.
func TestTheFrontProxyWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := fake.NewClientBuilder().WithObjects(trustOf(newAuthority(t))).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
				if reads++; reads == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return inner.Get(ctx, key, into, opts...)
			},
		}).Build()
		proxy := &frontProxy{reader: c, log: logr.Discard()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		proxy.keep(ctx)
		if proxy.trusted.Load() == nil {
			t.Error("no front proxy is known after a minute")
		}
	})
}

// downed is an API server that does not answer.
func (c *cluster) downed() client.Reader {
	c.down = http.ErrServerClosed
	return c
}
