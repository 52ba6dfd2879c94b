// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
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

// checkToken reads the claims of a service account token: its audience, its subject, and
// that it is valid at this time.
func checkToken(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	parts := strings.Split(string(data), ".")
	if len(parts) != 3 {
		return fmt.Errorf("%s holds no token", args[0])
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	var claims struct {
		Audience []string `json:"aud"`
		Subject  string   `json:"sub"`
		Expires  int64    `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	left := time.Until(time.Unix(claims.Expires, 0))
	if !slices.Contains(claims.Audience, args[1]) || claims.Subject != args[2] || left <= 0 {
		return fmt.Errorf("%s is for audience %q and subject %q and lasts %s, want audience %q and subject %q", args[0], claims.Audience, claims.Subject, left, args[1], args[2])
	}
	return nil
}
