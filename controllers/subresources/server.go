// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/certificate"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// othersQPS bounds the questions about callers that are hardly shims, per second.
const othersQPS = 20

// SetUp adds the aggregated API to a manager: its server on every replica, and on the leader
// the renewal of the certificate. A replica that has a certificate and does not serve yet is not
// ready, so that the API server does not ask it.
func SetUp(ctx context.Context, mgr manager.Manager, o Options, namespace string, sources Sources) error {
	if !o.Enabled() {
		return nil
	}
	log := logr.FromContextOrDiscard(ctx).WithName("subresources")
	direct, err := ownClient(mgr, mgr.GetConfig().QPS, mgr.GetConfig().Burst)
	if err != nil {
		return err
	}
	reviews := newReviews(direct)
	reviews.namespace = namespace
	if reviews.others, err = ownClient(mgr, othersQPS, 2*othersQPS); err != nil {
		return err
	}
	target := certificate.Target{
		What: "subresources", Secret: types.NamespacedName{Namespace: namespace, Name: o.Name}, Dir: o.CertificateDir,
		Trust:   certificate.Trust{Kind: certificate.APIService, Name: v1alpha1.GroupVersion.Version + "." + v1alpha1.GroupVersion.Group},
		Without: "The aggregated API is off: nodes get no ConfigMaps, Secrets and tokens",
		Log:     log,
	}
	source := certificate.NewSource(mgr.GetAPIReader(), target)
	s := &server{
		address: o.BindAddress, source: source, log: log,
		front: &frontProxy{reader: direct, log: log},
		handler: &handler{
			client: direct, gate: &gate{reader: direct, nodes: sources.Nodes, reviews: reviews}, bounds: newBounds(), encodings: newEncodings(), chunkTimeout: chunkTimeout, referencesLag: referencesLag,
			objects: sources.Objects, references: sources.References, workloads: sources.Workloads, tokenRights: sources.TokenRights, usages: newUsages(),
			peers: newPeers(direct, source.Current, namespace, o.Name),
			log:   log, said: flowcontrol.NewTokenBucketPassiveRateLimiter(0.2, 20),
		},
	}
	errs := []error{mgr.Add(s), mgr.AddReadyzCheck("subresources", s.ready)}
	if o.RotateCertificates {
		errs = append(errs, mgr.Add(certificate.NewRotation(mgr, target)))
	}
	return errors.Join(errs...)
}

// ownClient reads from the API server, with bounds of its own: what nodes ask for does not keep
// the manager from its work.
func ownClient(mgr manager.Manager, qps float32, burst int) (client.Client, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.RateLimiter, cfg.QPS, cfg.Burst = nil, qps, burst
	c, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for the aggregated API: %w", err)
	}
	return c, nil
}

// server serves the aggregated API once there is a certificate, leader or not.
type server struct {
	address string
	source  *certificate.Source
	front   *frontProxy
	handler *handler
	log     logr.Logger
	serving atomic.Bool
}

// NeedLeaderElection: every replica answers.
func (*server) NeedLeaderElection() bool { return false }

// ready is nil where there is no certificate: only the leader makes it, and in a roll-out that turns
// the API on it is a replica that leaves only once this one is ready.
func (s *server) ready(*http.Request) error {
	if !s.serving.Load() && !s.source.Missing() {
		return errors.New("the aggregated API is not served yet")
	}
	return nil
}

// Start serves until ctx is done.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("serve the aggregated API: %w", err)
	}
	defer listener.Close() //nolint:errcheck // also closed by the server
	if !s.source.First(ctx) {
		return nil
	}
	s.front.read(ctx)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: tls.RequestClientCert}
	s.source.TLS(config)
	s.log.Info("Serving the aggregated API", "address", listener.Addr().String())
	s.serving.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	for _, do := range []func() error{
		func() error { return handshake.Serve(ctx, s.log, listener, config, s.handler.routes(s.front)) },
		func() error { s.source.Keep(ctx); return nil },
		func() error { s.front.keep(ctx); return nil },
	} {
		group.Go(func() error { return contain.Call(s.log, do) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve the aggregated API: %w", err)
	}
	return nil
}
