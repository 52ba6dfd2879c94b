// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

// tearDownAll takes all volumes of a pod away. Mounts go first, wherever below the
// pod's directory they are: a container may have made some.
func (m *Manager) tearDownAll(ctx context.Context, uid types.UID) error {
	dir := m.podDir(uid)
	if err := m.patience.DetachBelow(ctx, filepath.Join(dir, subPathsDir)); err != nil {
		return err
	}
	if err := m.patience.UnmountBelow(ctx, dir); err != nil {
		return err
	}
	for _, sub := range []string{subPathsDir, emptyDirsDir, markersDir} {
		parent, name := filepath.Split(filepath.Join(dir, sub))
		if err := hostfs.RemoveTree(ctx, parent, name); err != nil {
			return err
		}
	}
	return nil
}

// tearDownLost takes away the volumes on the disk that the pod does not have (any
// more), and the subPaths of mounts that it does not have.
func (m *Manager) tearDownLost(ctx context.Context, pod *corev1.Pod) error {
	if err := m.tearDownLostSubPaths(ctx, pod); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.EmptyDir != nil {
			wanted[volume.Name] = true
		}
	}
	on, err := namesIn(filepath.Join(m.podDir(pod.UID), emptyDirsDir))
	if err != nil {
		return err
	}
	for _, name := range on {
		if wanted[name] {
			continue
		}
		if err := m.tearDownEmptyDir(ctx, pod.UID, name); err != nil {
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", name, err)
		}
	}
	return nil
}

func (m *Manager) tearDownEmptyDir(ctx context.Context, uid types.UID, name string) error {
	dir := m.emptyDir(uid, name)
	if err := m.patience.UnmountBelow(ctx, dir); err != nil {
		return err
	}
	if err := hostfs.RemoveTree(ctx, filepath.Dir(dir), name); err != nil {
		return err
	}
	return hostfs.RemoveTree(ctx, filepath.Join(m.podDir(uid), markersDir), name)
}

// tearDownLostSubPaths goes by what is on the disk:
// volume-subpaths/<volume>/<container>/<index>.
func (m *Manager) tearDownLostSubPaths(ctx context.Context, pod *corev1.Pod) error {
	wanted := subPathsOf(pod)
	root := filepath.Join(m.podDir(pod.UID), subPathsDir)
	return eachBelow(root, 3, func(name string) error {
		if wanted[name] {
			return nil
		}
		target := filepath.Join(root, name)
		if err := m.patience.DetachBelow(ctx, target); err != nil {
			return err
		}
		return hostfs.RemoveTree(ctx, filepath.Dir(target), filepath.Base(target))
	})
}

// subPathsOf names the subPaths of a pod by where they are bound.
func subPathsOf(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	add := func(container string, mounts []corev1.VolumeMount) {
		for i := range mounts {
			if mounts[i].SubPath != "" || mounts[i].SubPathExpr != "" {
				names[filepath.Join(mounts[i].Name, container, strconv.Itoa(i))] = true
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			add(list[i].Name, list[i].VolumeMounts)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Name, pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return names
}

// eachBelow calls do for each entry that lies so many directories below dir.
func eachBelow(dir string, levels int, do func(name string) error) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if levels == 1 {
			err = do(name)
		} else {
			err = eachBelow(filepath.Join(dir, name), levels-1, func(below string) error { return do(filepath.Join(name, below)) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namesIn lists a directory; one that is not there is empty.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}
