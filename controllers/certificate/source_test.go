// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// certificate makes a pair that matches.
func certificate(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		certificateFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyFile:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// A read that gets no answer ends, and is tried again.
func TestReadWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "webhook"}, Data: certificate(t)}
		reads := 0
		c := fake.NewClientBuilder().WithObjects(secret).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
				if reads++; reads == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return inner.Get(ctx, key, into, opts...)
			},
		}).Build()
		source := NewSource(c, Target{Secret: client.ObjectKeyFromObject(secret), Dir: t.TempDir(), Log: logr.Discard()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !source.First(ctx) {
			t.Error("no certificate after a minute")
		}
	})
}

// The certificate of the Secret is copied once it is there, again when it is another
// one, and never when it cannot be served.
func TestCopyCertificate(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "webhook"}}
	c := fake.NewClientBuilder().Build()
	dir := t.TempDir()
	source := NewSource(c, Target{What: "webhook", Secret: types.NamespacedName{Namespace: "system", Name: "webhook"}, Dir: dir, Log: logr.Discard()})
	copied := func(data map[string][]byte) {
		t.Helper()
		for _, name := range []string{certificateFile, keyFile} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(got) != string(data[name]) {
				t.Errorf("%s: %q, error %v", name, got, err)
			}
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
		}
	}
	refused := func(words string) {
		t.Helper()
		if err := source.copy(t.Context()); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, want %q", err, words)
		}
	}
	refused("not found")
	if err := c.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	refused("the Secret system/webhook has no certificate yet")
	first, second := certificate(t), certificate(t)
	update := func(data map[string][]byte) {
		t.Helper()
		secret.Data = data
		if err := c.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range []map[string][]byte{first, second} {
		update(data)
		if err := source.copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		copied(data)
	}
	update(map[string][]byte{certificateFile: first[certificateFile], keyFile: second[keyFile]})
	refused("read the certificate in Secret system/webhook")
	copied(second)
}
