// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// Named reports whether anything names an API server, whether or not Load can use it.
func Named(file string) bool {
	if file != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return true
	}
	_, err := os.Stat(clientcmd.RecommendedHomeFile)
	return err == nil
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
