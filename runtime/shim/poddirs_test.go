// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

// newPodDirs keeps pods in pods and logs below root, without cgroups; the loop of the
// volumes runs until the test ends.
func newPodDirs(t *testing.T, root string, config poddir.Config) *poddir.Manager {
	t.Helper()
	volumes, err := volume.New(volume.Config{RootDir: filepath.Join(root, "pods")})
	if err != nil {
		t.Fatal(err)
	}
	cgroups, err := podcgroup.New(podcgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config.LogRoot = filepath.Join(root, "logs")
	dirs, err := poddir.New(config, volumes, cgroups)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- volumes.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dirs
}
