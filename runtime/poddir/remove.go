// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

// Release takes from a pod that ended what only running containers need: volumes
// with the contents of emptyDirs, subPaths, cgroup, IDs of the node. Logs and termination messages
// stay. It kills nothing: what is still in use is an error, and the call is to be
// repeated. (kubelet kubelet.go:SyncTerminatedPod)
func (m *Manager) Release(ctx context.Context, pod Identity) error {
	if err := pod.validate(); err != nil {
		return fmt.Errorf("release pod: %w", err)
	}
	if err := m.release(ctx, pod.UID); err != nil {
		return fmt.Errorf("release pod %q: %w", pod.UID, err)
	}
	return nil
}

func (m *Manager) release(ctx context.Context, uid types.UID) error {
	if err := m.volumes.Unmount(ctx, uid); err != nil {
		return err
	}
	if err := m.cgroups.Remove(ctx, uid); err != nil {
		return err
	}
	return m.users.Release(uid)
}

// Remove takes the pod's place away: mounts, directories, logs, cgroup, IDs. It kills
// nothing: what is still in use is an error, and the call is to be repeated. A pod
// that has no place is no error. Namespace and name may be empty; the logs are
// found by the UID then.
func (m *Manager) Remove(ctx context.Context, pod Identity) error {
	if err := pod.validate(); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	if err := m.remove(ctx, pod); err != nil {
		return fmt.Errorf("remove what is left of pod %q: %w", pod.UID, err)
	}
	return nil
}

func (m *Manager) remove(ctx context.Context, pod Identity) error {
	if err := m.volumes.Unmount(ctx, pod.UID); err != nil {
		return err
	}
	// Before what the pod is found by: what is still in use is tried again.
	if err := m.cgroups.Remove(ctx, pod.UID); err != nil {
		return err
	}
	if err := hostfs.RemoveTree(ctx, m.rootDir, string(pod.UID)); err != nil {
		return err
	}
	if err := m.removeLogs(ctx, pod.UID); err != nil {
		return err
	}
	return m.users.Release(pod.UID)
}

// KillLeftovers kills what a runtime has left in the cgroup of a pod that has ended. The caller knows
// that the runtime has no container and no sandbox of it any more.
func (m *Manager) KillLeftovers(ctx context.Context, uid types.UID) ([]podcgroup.Process, error) {
	return m.cgroups.KillLeftovers(ctx, uid)
}

// removeLogs removes the log directories that belong to a UID. A removal that takes
// longer than may be waited for continues, and the next call waits for it.
func (m *Manager) removeLogs(ctx context.Context, uid types.UID) error {
	entries, err := m.listLogs(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		id, ok := parseLogDirectory(entry.Name())
		if !ok || id.UID != uid {
			continue
		}
		err := m.patience.Do(ctx, filepath.Join(m.config.LogRoot, entry.Name()), func() error {
			return hostfs.RemoveTree(ctx, m.config.LogRoot, entry.Name())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// listLogs lists the log directories of all pods.
func (m *Manager) listLogs(ctx context.Context) ([]fs.DirEntry, error) {
	return hostfs.Ask(ctx, m.patience, m.config.LogRoot,
		func() ([]fs.DirEntry, error) { return os.ReadDir(m.config.LogRoot) }, func([]fs.DirEntry) {})
}

// parseLogDirectory takes <namespace>_<name>_<uid> apart; neither of the first
// two can hold an underscore.
func parseLogDirectory(name string) (Identity, bool) {
	parts := strings.SplitN(name, "_", 3)
	if len(parts) != 3 || parts[2] == "" {
		return Identity{}, false
	}
	return Identity{Namespace: parts[0], Name: parts[1], UID: types.UID(parts[2])}, true
}
