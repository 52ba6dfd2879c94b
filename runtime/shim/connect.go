// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
)

// connect makes what talks to the API server.
func (s *shim) connect(ctx context.Context, log logr.Logger) error {
	cfg, err := s.apiServer()
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = apiQPS, apiBurst, userAgent
	if err := actAsNode(cfg, s.options.NodeName, s.counted, log.WithName("node")); err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if s.mgr, err = newManager(cfg, s.options, scheme); err != nil {
		return err
	}
	// Reads of this one go to the API server; the cache holds NodeWorkloads only.
	s.api, err = client.New(cfg, client.Options{Scheme: scheme, Mapper: s.mgr.GetRESTMapper(), HTTPClient: s.mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("make the API client: %w", err)
	}
	s.tokenFile = cfg.BearerTokenFile
	if err := s.connectObjects(cfg, log.WithName("objects")); err != nil {
		return err
	}
	s.events, err = newEvents(ctx, cfg, scheme, s.options.NodeName, s.alone)
	return err
}

// connectObjects makes what asks the manager for the objects and tokens of containers.
func (s *shim) connectObjects(cfg *rest.Config, log logr.Logger) error {
	asks, err := newObjectClient(cfg, s.mgr.GetHTTPClient(), s.options.NodeName)
	if err != nil {
		return err
	}
	s.postUsage = asks.postUsage
	uid := &nodeUID{api: s.api, node: s.options.NodeName, changed: func() { s.volumes.RefreshTokens(); s.pool.WakeAll() }}
	s.objects = newNodeObjects(asks, uid, func() workloads { return s.pool }, s.clock, log)
	s.objects.refresh = func(namespace string, refs []apiobjects.Ref) { s.volumes.Refresh(namespace, refs) }
	s.objects.renewed = func(uid types.UID) { s.volumes.RefreshPod(uid) }
	return nil
}
