// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
)

const cgroupMount = "/sys/fs/cgroup"

// The cgroup drivers.
const (
	DriverFS      = "cgroupfs"
	DriverSystemd = "systemd"
)

var (
	errNoCgroups = errors.New("no cgroups are mounted on " + cgroupMount)
	errSystemdV1 = errors.New("the systemd cgroup driver needs cgroup v2")
	errNoParent  = errors.New("bounds need a parent cgroup (--cgroup-parent) below the root")
)

// Config says where the pods' cgroups are.
type Config struct {
	// Parent is above every pod's cgroup, such as /managedworkload; empty means
	// that no pod cgroups are kept.
	Parent string
	// Driver is that of the runtime: cgroupfs (also when empty) or systemd.
	Driver string
	// Bounds are those of Parent, and BoundsFile remembers what was set for them.
	Bounds     Bounds
	BoundsFile string
	// PodPids is how many processes and threads a pod may have; 0 is no limit. (the
	// kubelet's podPidsLimit)
	PodPids int64
	// HostRoot is the node's file system.
	HostRoot hostfs.Root
	// Process is a container's first process, on the node, and the cgroup that the
	// container was created in; nil means that neither is known.
	Process func(ctx context.Context, containerID string) (pid int, cgroup string, err error)
}

// Manager keeps the cgroups of all pods of a node. It is safe for concurrent use;
// calls about one pod come from one worker, and the syncs that it has carried out beside each other.
type Manager struct {
	parent   string
	podPids  int64
	bounds   boundsKeeper
	hostRoot hostfs.Root
	process  func(ctx context.Context, containerID string) (pid int, cgroup string, err error)
	// cgroupMount is where the freezer is looked for.
	cgroupMount string

	mu     sync.Mutex
	driver string
	// applied are the limits that were set last, since the start of the process, and changing has a
	// lock for each pod that is held from their reading to their setting.
	applied  map[types.UID]limits
	changing map[types.UID]*sync.Mutex
	// vanished are the containers that ran when a pod's cgroup was missing, until it
	// is known where they run.
	vanished map[types.UID][]string
}

// New returns a Manager.
func New(config Config) (*Manager, error) {
	m := &Manager{
		parent: config.Parent, podPids: config.PodPids, hostRoot: config.HostRoot, process: config.Process,
		bounds:      boundsKeeper{bounds: config.Bounds, file: config.BoundsFile},
		cgroupMount: cgroupMount,
		driver:      DriverFS, applied: map[types.UID]limits{}, changing: map[types.UID]*sync.Mutex{}, vanished: map[types.UID][]string{},
	}
	bounded := config.PodPids > 0 || config.Bounds.limits(DriverFS) != Bounds{}.limits(DriverFS)
	if bounded && filepath.Join("/", config.Parent) == "/" {
		return nil, errNoParent
	}
	if config.Driver == "" {
		return m, nil
	}
	return m, m.SetDriver(config.Driver)
}

// SetDriver replaces the configured cgroup driver when the runtime has reported its
// own. It is called before the first pod is prepared.
func (m *Manager) SetDriver(driver string) error {
	if driver != DriverFS && driver != DriverSystemd {
		return fmt.Errorf("unknown cgroup driver %q", driver)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.driver = driver
	return nil
}

// Path is the pod's cgroup as CRI wants it: the parent of its sandbox and
// containers; empty when none is kept.
func (m *Manager) Path(uid types.UID) string {
	if m.parent == "" {
		return ""
	}
	return m.pathOf(podName(uid))
}

// pathOf is that of a cgroup below the parent; an empty name is the parent itself.
func (m *Manager) pathOf(name string) string {
	if m.currentDriver() == DriverSystemd {
		return systemdPath(m.parent, name)
	}
	return filepath.Join("/", m.parent, name)
}

// podName is a pod's part of the path of its cgroup.
func podName(uid types.UID) string { return "mw" + string(uid) }

func (m *Manager) currentDriver() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.driver
}

// last returns the limits that were set last; none after a restart of the process.
func (m *Manager) last(uid types.UID) (limits, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.applied[uid]
	return l, ok
}

func (m *Manager) remember(uid types.UID, l limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied[uid] = l
}

func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, uid)
	delete(m.changing, uid)
	delete(m.vanished, uid)
}

// alone waits until nothing else changes the limits of a pod; done is called when they are set.
func (m *Manager) alone(uid types.UID) (done func()) {
	m.mu.Lock()
	changing := m.changing[uid]
	if changing == nil {
		changing = new(sync.Mutex)
		m.changing[uid] = changing
	}
	m.mu.Unlock()
	changing.Lock()
	return changing.Unlock
}

// systemdPath nests slices as systemd does: /a with b is /a.slice/a-b.slice. A
// dash within a name becomes an underscore. (cm/cgroup_manager_linux.go:ToSystemd)
func systemdPath(parent, name string) string {
	path, unit := "/", ""
	for part := range strings.SplitSeq(filepath.Join(parent, name), "/") {
		if part == "" {
			continue
		}
		if unit != "" {
			unit += "-"
		}
		unit += strings.ReplaceAll(strings.TrimSuffix(part, ".slice"), "-", "_")
		path = filepath.Join(path, unit+".slice")
	}
	return path
}

// limitsOf are what the pod's cgroup is to have.
func (m *Manager) limitsOf(pod *corev1.Pod) limits {
	l := podLimits(pod)
	if m.podPids > 0 {
		l.pids = m.podPids
	}
	return l
}

// Ensure makes the pod's cgroup with its limits, or changes the limits of one that
// is there; the parent has its bounds before that. A memory limit below what is in use waits for a later call: setting it
// now would have the kernel kill what should end gracefully.
// (kubelet cm/pod_container_manager_linux.go:EnsureExists)
func (m *Manager) Ensure(ctx context.Context, pod *corev1.Pod) error {
	if err := hostfs.PathPart(string(pod.UID)); err != nil {
		return err
	}
	path := m.Path(pod.UID)
	if path == "" {
		return nil
	}
	if err := m.bound(ctx); err != nil {
		return err
	}
	defer m.alone(pod.UID)()
	wanted := m.limitsOf(pod)
	if last, ok := m.last(pod.UID); ok && last == wanted && cgroupExists(path) {
		return nil
	}
	apply := wanted
	if wanted.memory != withoutLimit && memoryUse(path) > wanted.memory {
		apply.memory = withoutLimit
	}
	if err := applyLimits(ctx, path, m.currentDriver(), apply); err != nil {
		return fmt.Errorf("make cgroup %q: %w", path, err)
	}
	m.remember(pod.UID, apply)
	return nil
}

func applyLimits(ctx context.Context, path, driver string, l limits) error {
	mode := cgroups.Mode()
	switch {
	case mode == cgroups.Unavailable:
		return errNoCgroups
	case mode != cgroups.Unified && driver == DriverSystemd:
		return errSystemdV1
	case mode != cgroups.Unified:
		if _, err := cgroup1.New(cgroup1.StaticPath(path), resourcesV1(l)); err != nil {
			return err
		}
		return writePids(path, l.pids)
	case driver == DriverSystemd:
		return applySlice(ctx, path, l)
	default:
		_, err := cgroup2.NewManager(cgroupMount, path, resourcesV2(l))
		return err
	}
}

func resourcesV1(l limits) *specs.LinuxResources {
	period := uint64(quotaPeriod)
	return &specs.LinuxResources{
		CPU:    &specs.LinuxCPU{Shares: &l.shares, Quota: &l.quota, Period: &period},
		Memory: &specs.LinuxMemory{Limit: &l.memory},
	}
}

func resourcesV2(l limits) *cgroup2.Resources {
	weight, period := cgroup2.ConvertCPUSharesToCgroupV2Value(l.shares), uint64(quotaPeriod)
	quota, memory := &l.quota, l.memory
	if l.quota == withoutLimit {
		quota = nil
	}
	if l.memory == withoutLimit {
		memory = math.MaxInt64 // the kernel takes it as max
	}
	return &cgroup2.Resources{
		CPU:    &cgroup2.CPU{Weight: &weight, Max: cgroup2.NewCPUMax(quota, &period)},
		Memory: &cgroup2.Memory{Max: &memory},
		Pids:   &cgroup2.Pids{Max: l.pids},
	}
}

// cgroupDirs are the directories of a cgroup: one for each v1 hierarchy, or one.
func cgroupDirs(path string) ([]string, error) {
	if cgroups.Mode() == cgroups.Unified {
		return []string{filepath.Join(cgroupMount, path)}, nil
	}
	subsystems, err := cgroup1.Default()
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, s := range subsystems {
		if in, ok := s.(interface{ Path(string) string }); ok {
			dirs = append(dirs, in.Path(path))
		}
	}
	return dirs, nil
}

func cgroupExists(path string) bool {
	dirs, err := cgroupDirs(path)
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return false
		}
	}
	return true
}

// memoryUse is in bytes; 0 when there is no such cgroup.
func memoryUse(path string) int64 {
	text, err := readControl(path, limitFiles[memoryLimit].useV1, limitFiles[memoryLimit].useV2)
	if err != nil {
		return 0
	}
	use, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return use
}
