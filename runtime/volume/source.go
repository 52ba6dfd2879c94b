// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/projection"
)

// sourceMark is the file that says what a volume was last set up for.
func (m *Manager) sourceMark(pod *corev1.Pod, k *kind, volume *corev1.Volume) string {
	return filepath.Join(m.marks(pod.UID, k, volume.Name), "source")
}

// sourceOf is what a volume is set up for: what it refers to and whose it is, and nothing of
// what the objects hold.
func sourceOf(pod *corev1.Pod, volume *corev1.Volume) []byte {
	account := ""
	if len(objects.Tokens(&corev1.PodSpec{Volumes: []corev1.Volume{*volume}})) > 0 {
		account = cmp.Or(pod.Spec.ServiceAccountName, "default")
	}
	text, err := json.Marshal(struct {
		Source  corev1.VolumeSource
		Group   *int64 `json:",omitempty"`
		User    *int64 `json:",omitempty"`
		Account string `json:",omitempty"`
	}{volume.VolumeSource, fsGroup(pod), projection.CommonUser(pod), account})
	if err != nil {
		return nil // an API type can be written
	}
	return text
}

// keepSource notes on the disk what a volume was set up for, unless that is there.
func (m *Manager) keepSource(ctx context.Context, on *pass, volume *corev1.Volume, k *kind) error {
	path, source := m.sourceMark(on.pod, k, volume), sourceOf(on.pod, volume)
	if on.p.sources[path] == string(source) {
		return nil
	}
	delete(on.p.sources, path)
	if err := m.patience.Do(ctx, filepath.Dir(path), func() error { return writeMark(path, source) }); err != nil {
		return err
	}
	on.p.sources[path] = string(source)
	return nil
}

// isSetUpFor says that a volume is mounted, and was set up for the same as it is for now.
// The disk is asked only for what an earlier process has set up.
func (m *Manager) isSetUpFor(ctx context.Context, on *pass, k *kind, volume *corev1.Volume) (bool, error) {
	path := m.sourceMark(on.pod, k, volume)
	source, known := on.p.sources[path]
	if !known {
		mark, err := hostfs.Ask(ctx, m.patience, filepath.Dir(path), func() ([]byte, error) {
			return os.ReadFile(path) //nolint:gosec // a file of the shim
		}, func([]byte) {})
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		source = string(mark)
		on.p.sources[path] = source
	}
	mounts, err := hostfs.MountsAt(m.dir(on.pod.UID, k, volume.Name))
	if err != nil || len(mounts) == 0 || !isTmpfs(mounts[len(mounts)-1]) {
		return false, err
	}
	return source == string(sourceOf(on.pod, volume)), nil
}

// forgetSources forgets what volumes were set up for that a pod does not have.
func (m *Manager) forgetSources(p *podVolumes, pod *corev1.Pod) {
	wanted := map[string]bool{}
	for i := range pod.Spec.Volumes {
		if k := m.kindOf(&pod.Spec.Volumes[i].VolumeSource); k != nil {
			wanted[m.sourceMark(pod, k, &pod.Spec.Volumes[i])] = true
		}
	}
	maps.DeleteFunc(p.sources, func(path, _ string) bool { return !wanted[path] })
}
