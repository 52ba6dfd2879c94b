// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The wait between two tries to keep the certificate.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// rotation keeps the certificate in the Secret and its CA in the webhook's configuration.
// It runs cert-controller in a manager of its own, which ends where that one gives up:
// without the Secret, the configuration or the rights the rest of the manager runs on.
type rotation struct {
	config  *rest.Config
	scheme  *runtime.Scheme
	reader  client.Reader
	options Options
	secret  types.NamespacedName
	log     logr.Logger
}

// tries counts how often cert-controller was run: a process gives each name of a controller
// once.
var tries atomic.Int64

// NeedLeaderElection: one replica makes certificates.
func (*rotation) NeedLeaderElection() bool { return true }

// Start keeps the certificate until ctx is done.
func (r *rotation) Start(ctx context.Context) error {
	wait, known := firstRetry, ""
	for {
		begun := time.Now()
		problem := r.try(ctx)
		if time.Since(begun) > lastRetry {
			wait, known = firstRetry, ""
		}
		if problem != "" && problem != known {
			known = problem
			r.log.Info("Failed to keep the webhook's certificate; retrying", "reason", problem)
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, lastRetry)
	}
}

// try keeps the certificate as long as it can, and returns why it cannot any more; "" if
// ctx is done.
func (r *rotation) try(ctx context.Context) (problem string) {
	err := r.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ""
	case err != nil:
		return err.Error()
	}
	return "cert-controller has ended"
}

// run rotates certificates until ctx is done or cert-controller gives up.
func (r *rotation) run(ctx context.Context) error {
	if err := r.mayRead(ctx); err != nil {
		return err
	}
	cfg := rest.CopyConfig(r.config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyNamed{name: r.options.Name, next: next} })
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: r.scheme, Logger: r.log, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: new(5 * time.Second), // shorter than that of the manager around it
		Controller:              config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("make a manager for the certificate: %w", err)
	}
	err = rotator.AddRotator(mgr, &rotator.CertRotator{
		ControllerName: fmt.Sprintf("webhook-certificate-%d", tries.Add(1)),
		SecretKey:      r.secret,
		CertDir:        r.options.CertificateDir,
		CAName:         "managedworkload-webhook-ca",
		CAOrganization: "managedworkload.dev",
		DNSName:        fmt.Sprintf("%s.%s.svc", r.options.Name, r.secret.Namespace),
		IsReady:        make(chan struct{}),
		Webhooks:       []rotator.WebhookInfo{{Name: r.options.Name, Type: rotator.Validating}},
	})
	if err != nil {
		return fmt.Errorf("set the certificate's renewal up: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("renew the webhook's certificate: %w", err)
	}
	return nil
}

// mayRead looks for what cert-controller lists: it would wait for its caches for minutes.
func (r *rotation) mayRead(ctx context.Context) error {
	secrets := &corev1.SecretList{}
	if err := r.reader.List(ctx, secrets, client.InNamespace(r.secret.Namespace), client.MatchingFields{"metadata.name": r.secret.Name}); err != nil {
		return fmt.Errorf("read Secret %s: %w", r.secret, err)
	}
	configurations := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := r.reader.List(ctx, configurations, client.MatchingFields{"metadata.name": r.options.Name}); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", r.options.Name, err)
	}
	if len(secrets.Items) == 0 || len(configurations.Items) == 0 {
		return fmt.Errorf("there is no Secret or no ValidatingWebhookConfiguration %s", r.options.Name)
	}
	return nil
}

// onlyNamed lets lists and watches ask for one object by its name: cert-controller asks
// for all, and the manager has no right to read more than its own.
type onlyNamed struct {
	name string
	next http.RoundTripper
}

func (o onlyNamed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && (strings.HasSuffix(req.URL.Path, "/secrets") || strings.HasSuffix(req.URL.Path, "/validatingwebhookconfigurations")) {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		query.Set("fieldSelector", "metadata.name="+o.name)
		req.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(req)
}
