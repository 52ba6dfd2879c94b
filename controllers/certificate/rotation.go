// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The wait between two tries to keep the certificate.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// rotation keeps a certificate in its Secret and its CA where the API server looks for it.
// It runs cert-controller in a manager of its own, which ends where that one gives up:
// without the Secret, the object with the CA or the rights the rest of the manager runs on.
type rotation struct {
	config *rest.Config
	scheme *runtime.Scheme
	reader client.Reader
	target Target
}

// NewRotation is what makes and renews the certificate of a target, on the leader.
func NewRotation(mgr manager.Manager, target Target) manager.Runnable {
	return &rotation{config: mgr.GetConfig(), scheme: mgr.GetScheme(), reader: mgr.GetAPIReader(), target: target}
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
			r.target.Log.Info("Failed to keep the certificate; retrying", "of", r.target.What, "reason", problem)
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
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyNamed{target: &r.target, next: next} })
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: r.scheme, Logger: r.target.Log, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: new(5 * time.Second), // shorter than that of the manager around it
		Controller:              config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("make a manager for the certificate: %w", err)
	}
	err = rotator.AddRotator(mgr, &rotator.CertRotator{
		ControllerName: fmt.Sprintf("%s-certificate-%d", r.target.What, tries.Add(1)),
		SecretKey:      r.target.Secret,
		CertDir:        r.target.Dir,
		CAName:         "managedworkload-" + r.target.What + "-ca",
		CAOrganization: "managedworkload.dev",
		DNSName:        r.target.dnsName(),
		IsReady:        make(chan struct{}),
		Webhooks:       []rotator.WebhookInfo{{Name: r.target.Trust.Name, Type: trustKinds[r.target.Trust.Kind].rotated}},
	})
	if err != nil {
		return fmt.Errorf("set the certificate's renewal up: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("renew the certificate of the %s: %w", r.target.What, err)
	}
	return nil
}

// mayRead looks for what cert-controller lists: it would wait for its caches for minutes.
func (r *rotation) mayRead(ctx context.Context) error {
	secret, trust := r.target.Secret, r.target.Trust
	secrets := &corev1.SecretList{}
	if err := r.reader.List(ctx, secrets, client.InNamespace(secret.Namespace), client.MatchingFields{"metadata.name": secret.Name}); err != nil {
		return fmt.Errorf("read Secret %s: %w", secret, err)
	}
	trusts := &metav1.PartialObjectMetadataList{}
	trusts.SetGroupVersionKind(trustKinds[trust.Kind].list)
	if err := r.reader.List(ctx, trusts, client.MatchingFields{"metadata.name": trust.Name}); err != nil {
		return fmt.Errorf("read %s: %w", trust, err)
	}
	if len(secrets.Items) == 0 {
		return fmt.Errorf("there is no Secret %s", secret)
	}
	if len(trusts.Items) == 0 {
		return fmt.Errorf("there is no %s", trust)
	}
	return nil
}

// onlyNamed lets lists and watches ask for one object by its name: cert-controller asks
// for all, and the manager has no right to read more than its own.
type onlyNamed struct {
	target *Target
	next   http.RoundTripper
}

func (o onlyNamed) RoundTrip(req *http.Request) (*http.Response, error) {
	if name := o.only(req); name != "" {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		query.Set("fieldSelector", "metadata.name="+name)
		req.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(req)
}

// only is the name of the only object that a list may ask for, "" where req is no such list.
func (o onlyNamed) only(req *http.Request) string {
	switch {
	case req.Method != http.MethodGet:
		return ""
	case strings.HasSuffix(req.URL.Path, "/secrets"):
		return o.target.Secret.Name
	case strings.HasSuffix(req.URL.Path, "/"+trustKinds[o.target.Trust.Kind].plural):
		return o.target.Trust.Name
	}
	return ""
}
