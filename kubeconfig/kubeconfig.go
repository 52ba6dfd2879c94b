// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// None reports whether an error of Load says that nothing at all names an API server.
func None(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if clientcmd.IsEmptyConfig(err) {
			return true
		}
	}
	return false
}

// Load returns how to reach the API server: by the file if one is named, else by
// $KUBECONFIG, else as a pod of the cluster, else by ~/.kube/config, which is the
// order of controller-runtime.
func Load(file string) (*rest.Config, error) {
	load := config.GetConfig
	if file != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", file) }
	}
	cfg, err := load()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return cfg, nil
}
