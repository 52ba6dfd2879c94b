// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/userns"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

const (
	podDirMode    os.FileMode = 0o750
	logDirMode    os.FileMode = 0o755
	identityFile              = "identity.json"
	etcHostsFile              = "etc-hosts"
	containersDir             = "containers"
)

// Config says where pods live and what the node is like.
type Config struct {
	// LogRoot holds one log directory for each pod. It stands at the same path
	// inside and outside of the shim's container.
	LogRoot string
	// NodeName and NodeIPs are what fieldRefs resolve to; the first IP is
	// status.hostIP.
	NodeName string
	NodeIPs  []string
	// ClusterDNS are the servers of dnsPolicy ClusterFirst; without any, such a
	// pod gets the node's own.
	ClusterDNS []string
	// ClusterDomain is the domain of Services, such as cluster.local.
	ClusterDomain string
	// ResolvConf is the node's resolver configuration; empty means that pods get
	// a resolver on localhost.
	ResolvConf string
	// HostRoot is the node's file system.
	HostRoot hostfs.Root
	// Objects are what environment variables come from; nil if there are none.
	Objects Objects
	// APIServer is where containers find the API server.
	APIServer APIServer
	// Capacity is what resourceFieldRef takes for a missing limit; found out when
	// nil.
	Capacity corev1.ResourceList
	// Logger gets what must not be in an event; the zero value discards it.
	Logger logr.Logger
}

// Identity identifies a pod on the node.
type Identity struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// IdentityOf returns the identity of a pod.
func IdentityOf(pod *corev1.Pod) Identity {
	return Identity{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// validate refuses what could lead out of the directories when it becomes a
// part of a path. Namespace and name may be unknown, the UID may not.
func (id Identity) validate() error {
	if id.UID == "" {
		return fmt.Errorf("pod %q has no UID", id.Name)
	}
	for _, part := range []string{string(id.UID), id.Namespace, id.Name} {
		if part == "" {
			continue
		}
		if err := hostfs.PathPart(part); err != nil {
			return err
		}
	}
	return nil
}

// Manager keeps the places of all pods of a node. It is safe for concurrent use;
// calls about one pod come from one worker at a time.
type Manager struct {
	config   Config
	rootDir  string
	capacity corev1.ResourceList
	volumes  *volume.Manager
	cgroups  *podcgroup.Manager
	users    *userns.Ranges
	patience *hostfs.Patience // with the log directories

	mu sync.Mutex
	// recursive: the runtime can make recursive read-only mounts.
	recursive bool
}

// New makes the log directory. Pods' directories are those of the volumes.
func New(config Config, volumes *volume.Manager, cgroups *podcgroup.Manager) (*Manager, error) {
	var err error
	if config.LogRoot, err = hostfs.MakeRoot(config.LogRoot, logDirMode); err != nil {
		return nil, err
	}
	if config.Objects == nil {
		config.Objects = noObjects{}
	}
	users, err := userns.New(volumes.RootDir())
	if err != nil {
		return nil, err
	}
	m := &Manager{
		config: config, rootDir: volumes.RootDir(), capacity: config.Capacity, volumes: volumes, cgroups: cgroups, users: users,
		patience: hostfs.NewPatience(hostfs.DefaultPatience),
	}
	if m.capacity == nil {
		m.capacity = NodeCapacity(m.rootDir)
	}
	return m, nil
}

// SetRecursiveReadOnly notes whether the runtime can make recursive read-only
// mounts; until it is called, it cannot.
func (m *Manager) SetRecursiveReadOnly(can bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recursive = can
}

// RecursiveReadOnly returns what was noted last.
func (m *Manager) RecursiveReadOnly() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recursive
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.rootDir, string(uid))
}

// CgroupParent is the pod's cgroup as CRI wants it: the parent of its sandbox and
// containers; empty when none is kept.
func (m *Manager) CgroupParent(pod *corev1.Pod) string {
	return m.cgroups.Path(pod.UID)
}

// UserNamespace is the range of the node's IDs that is the pod's alone, until Release or
// Remove.
func (m *Manager) UserNamespace(pod *corev1.Pod) (userns.Range, error) {
	return m.users.Of(pod.UID)
}

// LogRoot is the directory of the log directories of all pods.
func (m *Manager) LogRoot() string { return m.config.LogRoot }

// LogDirectory is the host directory of the pod's container logs. (kubelet
// kuberuntime/helpers.go:BuildPodLogsDirectory)
func (m *Manager) LogDirectory(pod *corev1.Pod) string {
	return m.logDirectory(IdentityOf(pod))
}

func (m *Manager) logDirectory(id Identity) string {
	return filepath.Join(m.config.LogRoot, id.Namespace+"_"+id.Name+"_"+string(id.UID))
}
