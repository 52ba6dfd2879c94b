// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How often the Secret is read: before there is a certificate, and afterwards.
const (
	firstRead = time.Second
	laterRead = 10 * time.Second
	// readTimeout is how long one read may take.
	readTimeout = 10 * time.Second
)

// The keys of the Secret, and the names of the files.
const (
	certificateFile = corev1.TLSCertKey
	keyFile         = corev1.TLSPrivateKeyKey
)

// Source takes the certificate from the target's Secret, and copies it to a folder, where
// cert-controller looks whether it is served. It reads the Secret instead of
// watching it: a Secret that may not be read must not keep the manager's caches from being
// filled.
type Source struct {
	reader client.Reader
	target Target

	// pair is what is served; nil before there was one.
	pair atomic.Pointer[tls.Certificate]
	// tokens are those of the certificate of now, and of the one before it.
	tokens atomic.Pointer[[]string]
	// missing: by the last answer of the API server there is no certificate.
	missing atomic.Bool
	// certificate and key are what was copied last.
	certificate, key []byte
	problem          string
}

// NewSource is the source of a target's certificate.
func NewSource(reader client.Reader, target Target) *Source {
	return &Source{reader: reader, target: target}
}

// TLS gives a server's configuration the certificate of now.
func (s *Source) TLS(cfg *tls.Config) {
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }
}

// Current is the certificate of now; nil before there was one.
func (s *Source) Current() *tls.Certificate { return s.pair.Load() }

// Tokens returns what only those know who may read the Secret: for the certificate of now first, and for
// the one before it. There is none before there was a certificate.
func (s *Source) Tokens() []string {
	if tokens := s.tokens.Load(); tokens != nil {
		return *tokens
	}
	return nil
}

// token is derived from a private key, and does not reveal it.
func token(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("managedworkload.dev/token"))
	return hex.EncodeToString(mac.Sum(nil))
}

// Missing reports whether the API server said last that there is no certificate, or that the Secret
// may not be read. It is false before it answered.
func (s *Source) Missing() bool { return s.missing.Load() }

// First copies the first certificate and reports whether ctx lasted so long.
func (s *Source) First(ctx context.Context) bool {
	for {
		_ = s.copy(ctx) // logged
		if s.pair.Load() != nil {
			return true
		}
		if !pause(ctx, firstRead) {
			return false
		}
	}
}

// Keep copies every new certificate until ctx is done.
func (s *Source) Keep(ctx context.Context) {
	for pause(ctx, laterRead) {
		_ = s.copy(ctx) // logged
	}
}

// copy copies the certificate if it is a new one. A problem is logged once.
func (s *Source) copy(ctx context.Context) error {
	err := s.tryCopy(ctx)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	switch {
	case ctx.Err() != nil || problem == s.problem:
	case err != nil && s.pair.Load() == nil:
		s.target.Log.Info(s.target.Without, "reason", problem)
	case err != nil:
		s.target.Log.Info("Failed to take a new certificate; the one before stays", "of", s.target.What, "reason", problem)
	}
	s.problem = problem
	return err
}

func (s *Source) tryCopy(ctx context.Context) error {
	name, what := s.target.Secret, s.target.What
	secret := &corev1.Secret{}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.reader.Get(ctx, name, secret); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			s.missing.Store(true)
		}
		return fmt.Errorf("read Secret %s: %w", name, err)
	}
	certificate, key := secret.Data[certificateFile], secret.Data[keyFile]
	missing := len(certificate) == 0 || len(key) == 0
	s.missing.Store(missing)
	if missing {
		return fmt.Errorf("the Secret %s has no certificate yet", name)
	}
	if bytes.Equal(certificate, s.certificate) && bytes.Equal(key, s.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("read the certificate in Secret %s: %w", name, err)
	}
	s.pair.Store(&pair)
	s.tokens.Store(new(append([]string{token(key)}, s.Tokens()[:min(len(s.Tokens()), 1)]...)))
	if err := os.MkdirAll(s.target.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the %s's certificate: %w", what, err)
	}
	if err := errors.Join(replace(filepath.Join(s.target.Dir, keyFile), key), replace(filepath.Join(s.target.Dir, certificateFile), certificate)); err != nil {
		return fmt.Errorf("write the %s's certificate: %w", what, err)
	}
	s.certificate, s.key = certificate, key
	return nil
}

// replace writes a file in place of another.
func replace(path string, data []byte) error {
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// pause waits, and reports whether ctx lasted so long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
