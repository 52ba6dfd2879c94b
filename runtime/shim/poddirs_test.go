// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
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

// What is kept in memory of a workload, such as its tokens, is dropped when it has ended, and not only when its
// object goes.
func TestAWorkloadThatHasEndedIsForgotten(t *testing.T) {
	id := podworker.Identity{UID: "a", Namespace: "ns", Name: "web"}
	var forgotten []types.UID
	dirs := podDirAdapter{newPodDirs(t, t.TempDir(), poddir.Config{}), func(uid types.UID) { forgotten = append(forgotten, uid) }}
	if err := dirs.Release(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(forgotten, []types.UID{id.UID}) {
		t.Errorf("forgot %q, want %q", forgotten, id.UID)
	}
}
