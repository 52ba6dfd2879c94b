// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterFile in the state directory remembers the cluster, for a start without
// an API server.
const clusterFile = "cluster"

// clusterTimeout is short: nothing else is looked at meanwhile.
const clusterTimeout = 3 * time.Second

// cluster tells which cluster this is: the UID of its namespace kube-system.
type cluster struct {
	reader client.Reader
	path   string
}

func newCluster(reader client.Reader, stateDir string) *cluster {
	return &cluster{reader: reader, path: filepath.Join(stateDir, clusterFile)}
}

// remembered is the cluster of the last start, "" if there was none.
func (c *cluster) remembered() (string, error) {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// ask reads the identity from the API server.
func (c *cluster) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	ns := &corev1.Namespace{}
	if err := c.reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, ns); err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w", err)
	}
	return string(ns.UID), nil
}

// remember keeps the identity for the next start.
func (c *cluster) remember(id string) error {
	if err := os.WriteFile(c.path, []byte(id+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the cluster's identity: %w", err)
	}
	return nil
}
