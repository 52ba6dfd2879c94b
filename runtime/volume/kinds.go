// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kind is how the volumes of one kind are kept.
type kind struct {
	// is says which sources are of the kind.
	is func(*corev1.VolumeSource) bool
	// place is the name of the directory below volumes/ and plugins/ of a pod's
	// directory that holds the volumes of the kind and what is noted of them; empty
	// where a volume lies elsewhere.
	place string
	// elsewhere is where on the node a volume lies that has no place; empty for one that
	// only the runtime has.
	elsewhere func(*corev1.VolumeSource) string
	// readOnly: containers cannot write there, whatever their mounts say.
	// (volume.Attributes of the kubelet's plugins)
	readOnly bool
	// files is the mode of a volume that shows files; 0 for other kinds.
	files fs.FileMode
	setUp func(m *Manager, ctx context.Context, on *pass, volume *corev1.Volume, k *kind) error
}

// pass is one pass over the volumes of a pod.
type pass struct {
	p   *podVolumes
	pod *corev1.Pod
	// taken is the memory that files take, in bytes.
	taken int64
}

const (
	volumesDir = "volumes"
	marksDir   = "plugins"

	emptyDirPlace = "kubernetes.io~empty-dir"
)

// kinds are the kinds of volumes that there are.
func kinds() []kind {
	return []kind{
		{
			is:        func(s *corev1.VolumeSource) bool { return s.HostPath != nil },
			elsewhere: func(s *corev1.VolumeSource) string { return s.HostPath.Path },
			setUp:     (*Manager).setUpHostPath,
		},
		{
			is:    func(s *corev1.VolumeSource) bool { return s.EmptyDir != nil },
			place: emptyDirPlace,
			setUp: (*Manager).setUpEmptyDir,
		},
		{
			is:        func(s *corev1.VolumeSource) bool { return s.Image != nil },
			elsewhere: func(*corev1.VolumeSource) string { return "" },
			readOnly:  true,
			setUp:     func(*Manager, context.Context, *pass, *corev1.Volume, *kind) error { return nil },
		},
		// Not on a tmpfs in the kubelet, hence another mode.
		filesKind("kubernetes.io~configmap", worldMode, func(s *corev1.VolumeSource) bool { return s.ConfigMap != nil }),
		filesKind("kubernetes.io~secret", memoryMode, func(s *corev1.VolumeSource) bool { return s.Secret != nil }),
		filesKind("kubernetes.io~downward-api", memoryMode, func(s *corev1.VolumeSource) bool { return s.DownwardAPI != nil }),
		filesKind("kubernetes.io~projected", memoryMode, func(s *corev1.VolumeSource) bool { return s.Projected != nil }),
	}
}

func filesKind(place string, mode fs.FileMode, is func(*corev1.VolumeSource) bool) kind {
	return kind{is: is, place: place, readOnly: true, files: mode, setUp: (*Manager).setUpFiles}
}

var errNoKind = errors.New("its source is not supported")

// kindOf is nil for a source of no kind.
func (m *Manager) kindOf(source *corev1.VolumeSource) *kind {
	for i := range m.kinds {
		if m.kinds[i].is(source) {
			return &m.kinds[i]
		}
	}
	return nil
}

// find returns a volume of a pod and its kind; nil when the pod has no such volume.
func (m *Manager) find(pod *corev1.Pod, name string) (*corev1.Volume, *kind) {
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.Name == name {
			return volume, m.kindOf(&volume.VolumeSource)
		}
	}
	return nil, nil
}

// Path is where a volume lies on the node, empty for one of kind image, which the runtime
// mounts; false when the pod has no such volume.
func (m *Manager) Path(pod *corev1.Pod, name string) (string, bool) {
	switch volume, k := m.find(pod, name); {
	case k == nil:
		return "", false
	case k.place == "":
		return k.elsewhere(&volume.VolumeSource), true
	default:
		return m.dir(pod.UID, k, name), true
	}
}

// ReadOnly says that no container can write to a volume, whatever its mounts say.
func (m *Manager) ReadOnly(pod *corev1.Pod, name string) bool {
	_, k := m.find(pod, name)
	return k != nil && k.readOnly
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.config.RootDir, string(uid))
}

// dir is where a volume lies.
func (m *Manager) dir(uid types.UID, k *kind, volume string) string {
	return filepath.Join(m.podDir(uid), volumesDir, k.place, volume)
}

// marks is where things are noted about a volume.
func (m *Manager) marks(uid types.UID, k *kind, volume string) string {
	return filepath.Join(m.podDir(uid), marksDir, k.place, volume)
}

// EmptyDirs is the directory with those of a pod, whether it is there or not.
func (m *Manager) EmptyDirs(uid types.UID) string {
	return filepath.Join(m.podDir(uid), volumesDir, emptyDirPlace)
}
