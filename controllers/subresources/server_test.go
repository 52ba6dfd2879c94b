// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/controllers/certificate"
)

// started runs a server whose Secret the API server answers about with get.
func started(t *testing.T, get func(into *corev1.Secret) error) *server {
	t.Helper()
	reader := fake.NewClientBuilder().WithObjects(trustOf(newAuthority(t))).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if secret, ok := into.(*corev1.Secret); ok {
				return get(secret)
			}
			return inner.Get(ctx, key, into, opts...)
		},
	}).Build()
	target := certificate.Target{What: "subresources", Secret: types.NamespacedName{Namespace: "system", Name: "s"}, Dir: t.TempDir(), Log: logr.Discard()}
	s := &server{
		address: "127.0.0.1:0", source: certificate.NewSource(reader, target), log: logr.Discard(),
		front: &frontProxy{reader: reader, log: logr.Discard()}, handler: newCluster().handler(),
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// pairOf is what the Secret of a server has.
func pairOf(t *testing.T) map[string][]byte {
	t.Helper()
	certificate, key := newAuthority(t).sign(t, &x509.Certificate{DNSNames: []string{"s.system.svc"}})
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, key)}),
	}
}

func pkcs8(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	content, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A replica without a certificate is ready, or a roll-out that turns the API on would wait for the
// leader, which it replaces. One that knows of a certificate and does not serve is not ready.
func TestReady(t *testing.T) {
	secrets := corev1.Resource("secrets")
	tests := map[string]struct {
		get  func(*corev1.Secret) error
		want bool
	}{
		"the Secret has no certificate yet": {func(s *corev1.Secret) error { s.ObjectMeta = metav1.ObjectMeta{Name: "s"}; return nil }, true},
		"there is no Secret":                {func(*corev1.Secret) error { return apierrors.NewNotFound(secrets, "s") }, true},
		"another Secret may be read":        {func(*corev1.Secret) error { return apierrors.NewForbidden(secrets, "s", errors.New("no right")) }, true},
		"the API server does not answer":    {func(*corev1.Secret) error { return errors.New("no answer") }, false},
		"the certificate cannot be served": {func(s *corev1.Secret) error {
			s.Data = map[string][]byte{corev1.TLSCertKey: {1}, corev1.TLSPrivateKeyKey: {1}}
			return nil
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := started(t, tc.get)
				synctest.Wait()
				if err := s.ready(nil); (err == nil) != tc.want {
					t.Errorf("ready: %v", err)
				}
			})
		})
	}
}

// A replica that has a certificate becomes ready once it serves.
func TestReadyWithCertificate(t *testing.T) {
	pair := pairOf(t)
	s := started(t, func(into *corev1.Secret) error { into.Data = pair; return nil })
	for end := time.Now().Add(10 * time.Second); s.ready(nil) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(s.ready(nil))
		}
	}
	if !s.serving.Load() {
		t.Error("ready and not serving")
	}
}
