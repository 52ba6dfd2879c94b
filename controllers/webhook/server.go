// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/certificate"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// SetUp adds the webhook to a manager: its server, and on the leader the renewal of the
// certificate and the path of the API server. Nothing of it ends the manager but an address that cannot be
// listened on and a file with authorities that cannot be read.
func SetUp(ctx context.Context, mgr manager.Manager, o Options, namespace string, judge *admission.Judge) error {
	if !o.Enabled() {
		return nil
	}
	log := logr.FromContextOrDiscard(ctx).WithName("webhook")
	target := certificate.Target{
		What: "webhook", Secret: types.NamespacedName{Namespace: namespace, Name: o.Name}, Dir: o.CertificateDir,
		Trust:   certificate.Trust{Kind: certificate.ValidatingWebhookConfiguration, Name: o.Name},
		Without: "The webhook is off: templates are judged after they are stored, in the condition Accepted",
		Log:     log,
	}
	s := &server{
		Source: certificate.NewSource(mgr.GetAPIReader(), target), address: o.BindAddress, log: log,
		config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}},
		hooks:  ctrlwebhook.NewServer(ctrlwebhook.Options{}),
	}
	s.TLS(s.config)
	if o.ClientCAFile != "" {
		certified, err := o.onlyCertified()
		if err != nil {
			return err
		}
		certified(s.config)
	}
	s.register(mgr.GetScheme(), judge, mgr.GetClient(), o)
	runnables := []manager.Runnable{s}
	if o.RotateCertificates {
		runnables = append(runnables, certificate.NewRotation(mgr, target),
			&pathKeeper{reader: mgr.GetAPIReader(), client: mgr.GetClient(), name: o.Name, tokens: s.Tokens, log: log})
	}
	var errs []error
	for _, r := range runnables {
		errs = append(errs, mgr.Add(r))
	}
	return errors.Join(errs...)
}

// register serves each path to those who are recognised there.
func (s *server) register(scheme *runtime.Scheme, judge *admission.Judge, requests client.Reader, o Options) {
	known := recognised(&ctrladmission.Webhook{Handler: byKind{
		"ManagedWorkload": ctrladmission.WithValidator(scheme, &validator{judge: judge, turns: newTurns()}).Handler,
		"KillRequest":     ctrladmission.WithValidator(scheme, &requestBounds{requests}).Handler,
	}})
	s.hooks.Register(Path+"/", onlyKnown(s.Tokens, known))
	switch {
	case o.ClientCAFile != "":
		s.hooks.Register(Path, known)
	case !o.RotateCertificates:
		s.log.Info("Nothing shows who asks the webhook: it says only what templates themselves show. Set --webhook-client-ca-file where the API server has a certificate for webhooks")
		s.hooks.Register(Path, atMost(unknownAtOnce, &ctrladmission.Webhook{Handler: byKind{
			"ManagedWorkload": ctrladmission.WithValidator(scheme, &validator{judge: judge}).Handler,
		}}))
	}
}

// server serves the webhook once there is a certificate, leader or not.
type server struct {
	*certificate.Source
	address string
	config  *tls.Config
	// hooks counts and times what is asked; it does not listen.
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
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	defer listener.Close() //nolint:errcheck // also closed by the server
	s.log.Info("Serving the webhook", "path", Path)
	group, ctx := errgroup.WithContext(ctx)
	for _, do := range []func() error{
		func() error { return handshake.Serve(ctx, s.log, listener, s.config, s.hooks.WebhookMux()) },
		func() error { s.Keep(ctx); return nil },
	} {
		group.Go(func() error { return contain.Call(s.log, do) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}
