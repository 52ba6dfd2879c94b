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
	for _, sub := range m.placesOf(dir) {
		if err := hostfs.RemoveTree(ctx, filepath.Dir(sub), filepath.Base(sub)); err != nil {
			return err
		}
	}
	return nil
}

// placesOf are the directories in a pod's directory that belong to volumes.
func (m *Manager) placesOf(podDir string) []string {
	places := []string{filepath.Join(podDir, subPathsDir)}
	for i := range m.kinds {
		if place := m.kinds[i].place; place != "" {
			places = append(places, filepath.Join(podDir, volumesDir, place), filepath.Join(podDir, marksDir, place))
		}
	}
	return places
}

// tearDownLost takes away the volumes on the disk that the pod does not have (any
// more), and the subPaths of mounts that it does not have.
func (m *Manager) tearDownLost(ctx context.Context, pod *corev1.Pod) error {
	if err := m.tearDownLostSubPaths(ctx, pod); err != nil {
		return err
	}
	for i := range m.kinds {
		if k := &m.kinds[i]; k.place != "" {
			if err := m.tearDownLostOf(ctx, pod, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// tearDownLostOf is tearDownLost for one kind: a volume that is of another kind now is
// lost too.
func (m *Manager) tearDownLostOf(ctx context.Context, pod *corev1.Pod, k *kind) error {
	there, err := namesIn(filepath.Join(m.podDir(pod.UID), volumesDir, k.place))
	if err != nil {
		return err
	}
	for _, name := range there {
		if _, wanted := m.find(pod, name); wanted == k {
			continue
		}
		if err := m.tearDown(ctx, pod.UID, k, name); err != nil {
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", name, err)
		}
	}
	return nil
}

func (m *Manager) tearDown(ctx context.Context, uid types.UID, k *kind, name string) error {
	dir := m.dir(uid, k, name)
	if err := m.patience.UnmountBelow(ctx, dir); err != nil {
		return err
	}
	if err := hostfs.RemoveTree(ctx, filepath.Dir(dir), name); err != nil {
		return err
	}
	marks := m.marks(uid, k, name)
	return hostfs.RemoveTree(ctx, filepath.Dir(marks), name)
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
