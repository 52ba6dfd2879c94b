// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Places is where a pod keeps what counts.
type Places struct {
	// EmptyDirs holds a directory for each emptyDir, and Logs one for each container.
	EmptyDirs, Logs string
	// HostsFile is the pod's hosts file.
	HostsFile string
}

// measurement is one of a pod.
type measurement struct {
	*Keeper
	used plan.DiskUsage
	// bound is which bounds were met.
	bound error
}

// measure adds up what a pod uses. With an error it is a part of that; bound says what is not
// counted in any case. (kubelet stats/helper.go:calcEphemeralStorage)
func (k *Keeper) measure(ctx context.Context, pod Pod) (used plan.DiskUsage, bound, err error) {
	m := &measurement{Keeper: k, used: plan.DiskUsage{Volumes: map[string]int64{}, Containers: map[string]int64{}}}
	walking, cancel := context.WithTimeoutCause(ctx, longest, errTooLong)
	defer cancel()
	places := k.config.Places(pod)
	err = errors.Join(
		m.volumes(walking, places.EmptyDirs),
		m.logs(walking, places.Logs),
		m.hosts(walking, places.HostsFile),
		m.layers(ctx, pod),
	)
	return m.used, m.bound, err
}

// volumes measures the emptyDirs. Those in memory use no disk: another file system is mounted
// there.
func (m *measurement) volumes(ctx context.Context, dir string) error {
	return m.each(ctx, dir, func(name string, found result, onDisk bool) {
		m.used.Volumes[name] += found.bytes
		if onDisk {
			m.used.Pod += found.bytes
		}
	})
}

// logs measures the logs of all containers.
func (m *measurement) logs(ctx context.Context, dir string) error {
	return m.each(ctx, dir, func(name string, found result, _ bool) {
		m.used.Containers[name] += found.bytes
		m.used.Pod += found.bytes
	})
}

func (m *measurement) hosts(ctx context.Context, file string) error {
	found, err := m.du(ctx, file)
	m.used.Pod += found.bytes
	return err
}

// each measures each entry of a directory. onDisk says that it is on the file system of dir.
func (m *measurement) each(ctx context.Context, dir string, take func(name string, found result, onDisk bool)) error {
	type list struct {
		names  []string
		device uint64
	}
	all, err := hostfs.Ask(ctx, m.patience, dir, func() (list, error) {
		top, err := statAt(unix.AT_FDCWD, dir)
		if err != nil {
			return list{}, err
		}
		names, err := readNames(dir)
		return list{names, top.stat.Dev}, err
	}, func(list) {})
	if err = notThere(err); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	var errs error
	for _, name := range all.names {
		found, err := m.du(ctx, filepath.Join(dir, name))
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("measure %s: %w", name, err))
		}
		take(name, found, found.device == all.device)
	}
	return errs
}

// du measures a file or a directory, and notes which bound was met.
func (m *measurement) du(ctx context.Context, path string) (result, error) {
	found, err := du(ctx, m.patience, path)
	if errors.Is(err, errBound) { // the time was over before it began
		found.bound, err = err, nil
	}
	m.bound = cmp.Or(m.bound, found.bound)
	return found, err
}

func readNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNotThere
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// layers measures the writable layers. Those on a disk of their own do not count for the
// limits of containers, and count for those of the pod.
// (kubelet eviction_manager.go:containerEphemeralStorageLimitEviction)
func (m *measurement) layers(ctx context.Context, pod Pod) error {
	layers, err := m.config.Runtime.WritableLayers(ctx, pod.UID)
	if err != nil {
		return err
	}
	own, err := m.ownDisk(ctx)
	for name, bytes := range layers {
		m.used.Pod += bytes
		if err == nil && !own {
			m.used.Containers[name] += bytes
		}
	}
	return err
}

// ownDisk says that the runtime keeps its images on another file system than the pods' one.
// (kubelet stats/provider.go:HasDedicatedImageFs)
func (k *Keeper) ownDisk(ctx context.Context) (bool, error) {
	if own := k.own.Load(); own != nil {
		return *own, nil
	}
	path, err := k.config.Runtime.ImageFilesystem(ctx)
	if err != nil {
		return false, err
	}
	own, err := hostfs.Ask(ctx, k.patience, path, func() (bool, error) { return k.differs(path) }, func(bool) {})
	if err != nil {
		return false, fmt.Errorf("find the runtime's disk: %w", err)
	}
	k.own.Store(&own)
	return own, nil
}

// differs says that a directory of the node is on another file system than the pods.
func (k *Keeper) differs(path string) (bool, error) {
	images, err := k.config.HostRoot.Stat(path)
	if err != nil {
		return false, err
	}
	pods, err := os.Stat(k.config.PodsDir)
	if err != nil {
		return false, err
	}
	return deviceOf(images) != deviceOf(pods), nil
}
