// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

const (
	podDirMode  os.FileMode = 0o750
	subPathsDir             = "volume-subpaths"
)

// Config says where volumes are and what the node is like.
type Config struct {
	// RootDir holds one directory for each pod, named by its UID. It stands at the
	// same path inside and outside of the shim's container.
	RootDir string
	// HostRoot is the node's file system.
	HostRoot hostfs.Root
	// NodeMemory in bytes bounds emptyDirs in memory; 0 means no bound.
	NodeMemory int64
	// PodMemory is a pod's memory limit in bytes; 0 means none.
	PodMemory func(*corev1.Pod) int64
	// Objects is where ConfigMaps, Secrets and tokens come from; without it volumes
	// that need them wait.
	Objects Objects
	// Allocatable is what a resourceFieldRef takes for a missing limit.
	Allocatable corev1.ResourceList
	// Changed is called when the conditions of a pod have changed; nil is allowed.
	Changed func(types.UID)
	// Warn writes an event FailedMount about a pod; nil is allowed.
	Warn func(pod *corev1.Pod, message string)
	// Logger gets what must not be in an event; the zero value discards it.
	Logger logr.Logger
}

// Manager keeps the volumes of all pods. It is safe for concurrent use.
type Manager struct {
	config   Config
	patience *hostfs.Patience
	wake     chan struct{}
	kinds    []kind

	// writers has an element for each pod whose files are being written.
	writers chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*podVolumes
	// users are the pods that refer to an object.
	users map[reference]map[types.UID]bool
}

// New makes the root directory and resolves symbolic links in its path.
func New(config Config) (*Manager, error) {
	var err error
	if config.RootDir, err = hostfs.MakeRoot(config.RootDir, podDirMode); err != nil {
		return nil, err
	}
	if config.PodMemory == nil {
		config.PodMemory = func(*corev1.Pod) int64 { return 0 }
	}
	if config.Changed == nil {
		config.Changed = func(types.UID) {}
	}
	if config.Warn == nil {
		config.Warn = func(*corev1.Pod, string) {}
	}
	if config.Objects == nil {
		config.Objects = noObjects{}
	}
	return &Manager{
		config:   config,
		patience: hostfs.NewPatience(hostfs.DefaultPatience),
		wake:     make(chan struct{}, 1),
		kinds:    kinds(),
		writers:  make(chan struct{}, maxWriters),
		pods:     map[types.UID]*podVolumes{},
		users:    map[reference]map[types.UID]bool{},
	}, nil
}

// RootDir is the configured one without symbolic links in its path.
func (m *Manager) RootDir() string { return m.config.RootDir }

// WaitForMount makes the volumes of a pod ready, and takes away those that an
// earlier template of it had: no container may run that uses those. It returns
// after one attempt for each volume, or a few while objects may still arrive, with the first error in the template's order
// in the kubelet's words; the loop keeps trying. When ctx ends the error is its
// cause. (kubelet volumemanager/volume_manager.go:WaitForAttachAndMount)
func (m *Manager) WaitForMount(ctx context.Context, pod *corev1.Pod) error {
	if err := validate(pod); err != nil {
		return err
	}
	return m.await(ctx, pod.UID, pod)
}

// Unmount takes the volumes of a pod away, contents of emptyDirs included. No
// container of it may run: a volume in use is an error (EBUSY), and the loop keeps
// trying. (kubelet volumemanager/volume_manager.go:WaitForUnmount)
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	if err := hostfs.PathPart(string(uid)); err != nil {
		return fmt.Errorf("unmount volumes: %w", err)
	}
	return m.await(ctx, uid, nil)
}

// Conditions say what people should know about the volumes of a pod.
func (m *Manager) Conditions(uid types.UID) (conditions []corev1.PodCondition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return nil
	}
	for _, c := range []*corev1.PodCondition{p.pending, notUpdatedCondition(p.notUpdated)} {
		if c != nil {
			conditions = append(conditions, *c)
		}
	}
	return conditions
}

// validate refuses names that could lead out of the pod's directory.
func validate(pod *corev1.Pod) error {
	names := []string{string(pod.UID)}
	for i := range pod.Spec.Volumes {
		names = append(names, pod.Spec.Volumes[i].Name)
	}
	for _, name := range names {
		if err := hostfs.PathPart(name); err != nil {
			return fmt.Errorf("volumes of pod %q: %w", pod.Name, err)
		}
	}
	return nil
}

// errStopped is the error of a pass that the end of the loop has cut off.
var errStopped = errors.New("the volume manager has stopped")
