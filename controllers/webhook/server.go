// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/certificate"
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
	target := certificate.Target{
		What: "webhook", Secret: types.NamespacedName{Namespace: namespace, Name: o.Name}, Dir: o.CertificateDir,
		Trust:   certificate.Trust{Kind: certificate.ValidatingWebhookConfiguration, Name: o.Name},
		Without: "The webhook is off: templates are judged after they are stored, in the condition Accepted",
		Log:     log,
	}
	s := &server{Source: certificate.NewSource(mgr.GetAPIReader(), target), log: log}
	s.hooks = ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){s.TLS}})
	s.hooks.Register(Path, ctrladmission.WithValidator(mgr.GetScheme(), &validator{judge: judge}))
	runnables := []manager.Runnable{s}
	if o.RotateCertificates {
		runnables = append(runnables, certificate.NewRotation(mgr, target))
	}
	var errs []error
	for _, r := range runnables {
		errs = append(errs, mgr.Add(r))
	}
	return errors.Join(errs...)
}

// server serves the webhook once there is a certificate, leader or not.
type server struct {
	*certificate.Source
	hooks ctrlwebhook.Server
	log   logr.Logger
}

// NeedLeaderElection: every replica answers.
func (*server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done.
func (s *server) Start(ctx context.Context) error {
	if !s.First(ctx) {
		return nil
	}
	s.log.Info("Serving the webhook", "path", Path)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.hooks.Start(ctx) })
	group.Go(func() error {
		s.Keep(ctx)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}
