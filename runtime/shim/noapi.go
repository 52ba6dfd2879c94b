// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/kubeconfig"
)

// errNoAPIServer answers each request of a shim that runs by itself.
var errNoAPIServer = errors.New("there is no API server: the shim runs by itself, from --static-dir")

// apiServer finds the API server. Without one the shim runs by itself, if it has a
// directory of static workloads.
func (s *shim) apiServer() (*rest.Config, error) {
	if s.options.StaticDir == "" || kubeconfig.Named(s.options.Kubeconfig) {
		return kubeconfig.Load(s.options.Kubeconfig)
	}
	if s.options.RegisterNode {
		return nil, errors.New("--register-node needs an API server, and nothing names one: see --kubeconfig")
	}
	s.alone = true
	return &rest.Config{Host: "http://no-api-server.invalid", Transport: noAPIServer{}}, nil
}

// noAPIServer is the way to no API server.
type noAPIServer struct{}

// RoundTrip implements http.RoundTripper.
func (noAPIServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoAPIServer }

// noObjects are the objects of no API server.
type noObjects struct{}

// Get implements client.Reader.
func (noObjects) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List implements client.Reader: it adds nothing to the list.
func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }
