// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Images says where the runtime keeps images and writable layers.
type Images interface {
	// ImageFilesystem returns a path of the node.
	ImageFilesystem(ctx context.Context) (string, error)
}

// Machine observes the node that this process runs on.
type Machine struct {
	// StateDir and LogDir are on the file systems that nodefs means, HostRoot is the node's.
	StateDir, LogDir string
	HostRoot         hostfs.Root
	Images           Images
	// proc and cgroups are where the kernel shows itself; empty is where it does.
	proc, cgroups string

	patience *hostfs.Patience
}

// NewMachine returns what observes this node.
func NewMachine(stateDir, logDir string, root hostfs.Root, images Images) *Machine {
	return &Machine{
		StateDir: stateDir, LogDir: logDir, HostRoot: root, Images: images, proc: "/proc", cgroups: "/sys/fs/cgroup",
		patience: hostfs.NewPatience(hostfs.DefaultPatience),
	}
}

// fileSystem is one at a moment.
type fileSystem struct {
	device       uint64
	bytes, nodes plan.Observation
}

// Observe implements Node.
func (m *Machine) Observe(ctx context.Context) (plan.Observations, bool, error) {
	observed := plan.Observations{}
	var errs []error
	take := func(s plan.Signal, seen plan.Observation, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
			return
		}
		observed[s] = append(observed[s], seen)
	}
	memory, err := m.memory()
	take(plan.SignalMemoryAvailable, memory, err)
	pids, err := m.pids()
	take(plan.SignalPIDAvailable, pids, err)

	state, err := m.statfs(ctx, "", m.StateDir)
	errs = append(errs, err)
	logs, err := m.statfs(ctx, "", m.LogDir)
	errs = append(errs, err)
	images, err := m.imageFs(ctx)
	errs = append(errs, err)
	state.add(observed, plan.SignalNodeFsAvailable, plan.SignalNodeFsInodesFree)
	if logs != nil && (state == nil || logs.device != state.device) {
		logs.add(observed, plan.SignalNodeFsAvailable, plan.SignalNodeFsInodesFree)
	}
	images.add(observed, plan.SignalImageFsAvailable, plan.SignalImageFsInodesFree)
	return observed, state != nil && images != nil && state.device != images.device, errors.Join(errs...)
}

// add adds what was observed of a file system, if anything was. One without a count of inodes,
// such as btrfs, has none that could run short.
func (f *fileSystem) add(observed plan.Observations, bytes, nodes plan.Signal) {
	if f == nil {
		return
	}
	observed[bytes] = append(observed[bytes], f.bytes)
	if f.nodes.Capacity.Sign() > 0 {
		observed[nodes] = append(observed[nodes], f.nodes)
	}
}

// imageFs is the file system of images and writable layers. (kubelet
// stats/cri_stats_provider.go:ImageFsStats)
func (m *Machine) imageFs(ctx context.Context) (*fileSystem, error) {
	path, err := m.Images.ImageFilesystem(ctx)
	if err != nil {
		return nil, err
	}
	return m.statfs(ctx, m.HostRoot, path)
}

// statfs observes the file system of a path. One that does not answer is an error after a while.
func (m *Machine) statfs(ctx context.Context, root hostfs.Root, path string) (*fileSystem, error) {
	found, err := hostfs.Ask(ctx, m.patience, path, func() (*fileSystem, error) {
		dir, err := root.Open(path, unix.O_PATH)
		if err != nil {
			return nil, err
		}
		seen, err := fstatfs(dir)
		return seen, errors.Join(err, dir.Close())
	}, func(*fileSystem) {})
	if err != nil {
		return nil, fmt.Errorf("observe the file system of %s: %w", path, err)
	}
	return found, nil
}

func fstatfs(dir *os.File) (*fileSystem, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &stat); err != nil {
		return nil, err
	}
	size := uint64(fs.Bsize)
	return &fileSystem{
		device: stat.Dev,
		bytes:  observation(fs.Bavail*size, fs.Blocks*size, resource.BinarySI),
		nodes:  observation(fs.Ffree, fs.Files, resource.DecimalSI),
	}, nil
}

func observation(available, capacity uint64, format resource.Format) plan.Observation {
	return plan.Observation{Available: resource.NewQuantity(bounded(available), format), Capacity: resource.NewQuantity(bounded(capacity), format)}
}

// bounded is a number that the signed type holds.
func bounded(n uint64) int64 { return int64(min(n, 1<<62)) }
