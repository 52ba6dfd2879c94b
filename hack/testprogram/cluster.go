// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// clusterTimeout bounds one request to the API server.
const clusterTimeout = 5 * time.Second

// askCluster asks the API server for a path, as a program in a pod does with client-go's
// configuration, and fails unless the answer has the status.
func askCluster(args []string) error {
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("configuration in the cluster: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+args[0], nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("GET %s: %s, want %d", args[0], response.Status, want)
	}
	return nil
}
