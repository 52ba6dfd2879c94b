// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/managedworkload/managedworkload/api/metricsauth"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/internal/informers"
)

const (
	// apiTimeout bounds one request to the API server.
	apiTimeout = 10 * time.Second
	// neverTimeOut lets the shim start and live without an API server.
	neverTimeOut = 10 * 365 * 24 * time.Hour
	// The rate of requests to the API server.
	apiQPS   = 50
	apiBurst = 100
	// userAgent is the name of the shim in the API server's logs.
	userAgent = "managedworkload-shim"
)

// newScheme knows the few kinds that the shim reads and writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// newMapper maps those kinds without asking the API server, which may be away.
func newMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("NodeWorkload"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("ManagedWorkload"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	return mapper, nil
}

// newManager makes the controller-runtime manager: its cache holds this node's
// NodeWorkloads and nothing else.
func newManager(cfg *rest.Config, o Options, scheme *runtime.Scheme) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:         scheme,
		MapperProvider: newMapper,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&v1alpha1.NodeWorkload{}: {Field: fields.OneTermEqualSelector("spec.nodeName", o.NodeName)},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
			NewInformer:      informers.New,
		},
		Metrics:                metricsauth.Options(o.MetricsBindAddress),
		HealthProbeBindAddress: o.HealthProbeBindAddress,
		Controller:             config.Controller{CacheSyncTimeout: neverTimeOut},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add the health check: %w", err)
	}
	return mgr, nil
}
