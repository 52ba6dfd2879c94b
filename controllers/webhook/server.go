// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/controllers/admission"
)

// How often the Secret is read: before the webhook can be served, and afterwards.
const (
	firstRead = time.Second
	laterRead = 10 * time.Second
)

// The keys of the Secret, and the names of the files.
const (
	certificateFile = corev1.TLSCertKey
	keyFile         = corev1.TLSPrivateKeyKey
)

// SetUp adds the webhook to a manager: its server, and on the leader the renewal of the
// certificate. Nothing of it ends the manager but an address that cannot be listened on.
func SetUp(ctx context.Context, mgr manager.Manager, o Options, namespace string, judge *admission.Judge) error {
	if !o.Enabled() {
		return nil
	}
	host, port, err := o.address()
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx).WithName("webhook")
	secret := types.NamespacedName{Namespace: namespace, Name: o.Name}
	s := &server{copier: copier{reader: mgr.GetAPIReader(), secret: secret, dir: o.CertificateDir, log: log}}
	s.hooks = ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){
		func(cfg *tls.Config) {
			cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }
		},
	}})
	s.hooks.Register(Path, ctrladmission.WithValidator(mgr.GetScheme(), &validator{judge: judge}))
	runnables := []manager.Runnable{s}
	if o.RotateCertificates {
		runnables = append(runnables, &rotation{config: mgr.GetConfig(), scheme: mgr.GetScheme(), reader: mgr.GetAPIReader(), options: o, secret: secret, log: log})
	}
	var errs []error
	for _, r := range runnables {
		errs = append(errs, mgr.Add(r))
	}
	return errors.Join(errs...)
}

// server serves the webhook once there is a certificate, leader or not.
type server struct {
	copier
	hooks ctrlwebhook.Server
}

// NeedLeaderElection: every replica answers.
func (*server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done.
func (s *server) Start(ctx context.Context) error {
	if !s.first(ctx) {
		return nil
	}
	s.log.Info("Serving the webhook", "path", Path)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.hooks.Start(ctx) })
	group.Go(func() error {
		s.keep(ctx)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}

// copier takes the certificate from a Secret, and copies it to a folder, where
// cert-controller looks whether it is served. It reads the Secret instead of
// watching it: a Secret that may not be read must not keep the manager's caches from being
// filled.
type copier struct {
	reader client.Reader
	secret types.NamespacedName
	dir    string
	log    logr.Logger

	// pair is what is served; nil before there was one.
	pair atomic.Pointer[tls.Certificate]
	// certificate and key are what was copied last.
	certificate, key []byte
	problem          string
}

// first copies the first certificate and reports whether ctx lasted so long.
func (c *copier) first(ctx context.Context) bool {
	for {
		_ = c.copy(ctx) // logged
		if c.pair.Load() != nil {
			return true
		}
		if !pause(ctx, firstRead) {
			return false
		}
	}
}

// keep copies every new certificate until ctx is done.
func (c *copier) keep(ctx context.Context) {
	for pause(ctx, laterRead) {
		_ = c.copy(ctx) // logged
	}
}

// copy copies the certificate if it is a new one. A problem is logged once.
func (c *copier) copy(ctx context.Context) error {
	err := c.tryCopy(ctx)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	switch {
	case ctx.Err() != nil || problem == c.problem:
	case err != nil && c.pair.Load() == nil:
		c.log.Info("The webhook is off: templates are judged after they are stored, in the condition Accepted", "reason", problem)
	case err != nil:
		c.log.Info("Failed to take a new certificate of the webhook; the one before stays", "reason", problem)
	}
	c.problem = problem
	return err
}

func (c *copier) tryCopy(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := c.reader.Get(ctx, c.secret, secret); err != nil {
		return fmt.Errorf("read Secret %s: %w", c.secret, err)
	}
	certificate, key := secret.Data[certificateFile], secret.Data[keyFile]
	if len(certificate) == 0 || len(key) == 0 {
		return fmt.Errorf("the Secret %s has no certificate yet", c.secret)
	}
	if bytes.Equal(certificate, c.certificate) && bytes.Equal(key, c.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("read the certificate in Secret %s: %w", c.secret, err)
	}
	c.pair.Store(&pair)
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the webhook's certificate: %w", err)
	}
	if err := errors.Join(replace(filepath.Join(c.dir, keyFile), key), replace(filepath.Join(c.dir, certificateFile), certificate)); err != nil {
		return fmt.Errorf("write the webhook's certificate: %w", err)
	}
	c.certificate, c.key = certificate, key
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
