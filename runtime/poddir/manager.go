// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	podDirMode       os.FileMode = 0o750
	logDirMode       os.FileMode = 0o755
	identityFile                 = "identity.json"
	etcHostsFile                 = "etc-hosts"
	containersDir                = "containers"
	emptyDirsDir                 = "volumes/kubernetes.io~empty-dir"
	emptyDirsMetaDir             = "plugins/kubernetes.io~empty-dir"
	subPathsDir                  = "volume-subpaths"
)

// The cgroup drivers.
const (
	CgroupDriverFS      = "cgroupfs"
	CgroupDriverSystemd = "systemd"
)

// Config tells where pods live and what the node is like.
type Config struct {
	// RootDir holds one directory for each pod, named by its UID.
	RootDir string
	// LogRoot holds one log directory for each pod.
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
	// HostRoot is where the node's root directory is seen when this process runs in
	// a container; empty when it does not. RootDir and LogRoot stand at the same
	// path inside and outside.
	HostRoot string
	// CgroupParent is above every pod's cgroup, such as /managedworkload; empty
	// means that no pod cgroups are kept.
	CgroupParent string
	// CgroupDriver is that of the runtime: cgroupfs (also when empty) or systemd.
	CgroupDriver string
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
		return errors.New("pod has no UID")
	}
	for _, part := range []string{string(id.UID), id.Namespace, id.Name} {
		if part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
			return fmt.Errorf("%q cannot be part of a path", part)
		}
	}
	return nil
}

// Manager keeps the places of all pods of a node. It is safe for concurrent use;
// calls about one pod come from one worker at a time.
type Manager struct {
	config   Config
	capacity corev1.ResourceList

	mu     sync.Mutex
	driver string
	// recursive: the runtime can make recursive read-only mounts.
	recursive bool
	checked   map[types.UID]*prepared
}

// prepared is what Prepare has done for a pod since the start of the process.
type prepared struct {
	hostPaths map[string]string // type and path by volume
	limits    *cgroupLimits
}

// New makes the root directories. Symbolic links in their paths are resolved
// once, so that mounts below them can be told from the mount table.
func New(config Config) (*Manager, error) {
	if config.CgroupDriver == "" {
		config.CgroupDriver = CgroupDriverFS
	}
	if err := checkDriver(config.CgroupDriver); err != nil {
		return nil, err
	}
	roots := []struct {
		path *string
		mode os.FileMode
	}{{&config.RootDir, podDirMode}, {&config.LogRoot, logDirMode}}
	for _, root := range roots {
		resolved, err := makeRoot(*root.path, root.mode)
		if err != nil {
			return nil, err
		}
		*root.path = resolved
	}
	m := &Manager{
		config:   config,
		capacity: config.Capacity,
		driver:   config.CgroupDriver,
		checked:  map[types.UID]*prepared{},
	}
	if m.capacity == nil {
		m.capacity = nodeCapacity(config.RootDir)
	}
	return m, nil
}

func makeRoot(path string, mode os.FileMode) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("make directory %q: path is not absolute", path)
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("resolve directory: %w", err)
	}
	return resolved, nil
}

func checkDriver(driver string) error {
	if driver != CgroupDriverFS && driver != CgroupDriverSystemd {
		return fmt.Errorf("unknown cgroup driver %q", driver)
	}
	return nil
}

// SetCgroupDriver replaces the configured cgroup driver when the runtime has told
// its own. It is called before the first pod is prepared.
func (m *Manager) SetCgroupDriver(driver string) error {
	if err := checkDriver(driver); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.driver = driver
	return nil
}

// SetRecursiveReadOnly notes whether the runtime can make recursive read-only
// mounts; until it is called, it cannot.
func (m *Manager) SetRecursiveReadOnly(can bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recursive = can
}

// RecursiveReadOnly tells what was noted last.
func (m *Manager) RecursiveReadOnly() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recursive
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.config.RootDir, string(uid))
}

func (m *Manager) emptyDir(uid types.UID, volume string) string {
	return filepath.Join(m.podDir(uid), emptyDirsDir, volume)
}

// LogDirectory is the host directory of the pod's container logs. (kubelet
// kuberuntime/helpers.go:BuildPodLogsDirectory)
func (m *Manager) LogDirectory(pod *corev1.Pod) string {
	return m.logDirectory(IdentityOf(pod))
}

func (m *Manager) logDirectory(id Identity) string {
	return filepath.Join(m.config.LogRoot, id.Namespace+"_"+id.Name+"_"+string(id.UID))
}

// remembered is what Prepare has done for the pod; it is made when missing.
func (m *Manager) remembered(uid types.UID) *prepared {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.checked[uid]
	if p == nil {
		p = &prepared{hostPaths: map[string]string{}}
		m.checked[uid] = p
	}
	return p
}

func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.checked, uid)
}
