// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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

// measure adds up what a pod uses. With an error it is a part of that.
// (kubelet stats/helper.go:calcEphemeralStorage)
func (k *Keeper) measure(ctx context.Context, pod Pod) (plan.DiskUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	used := plan.DiskUsage{Volumes: map[string]int64{}, Containers: map[string]int64{}}
	places := k.config.Places(pod)
	err := errors.Join(
		k.volumes(ctx, places.EmptyDirs, &used),
		k.logs(ctx, places.Logs, &used),
		k.layers(ctx, pod, &used),
	)
	hosts, _, hostsErr := du(ctx, k.patience, places.HostsFile)
	used.Pod += hosts
	return used, errors.Join(err, hostsErr)
}

// volumes measures the emptyDirs. Those in memory use no disk: another file system is mounted
// there.
func (k *Keeper) volumes(ctx context.Context, dir string, used *plan.DiskUsage) error {
	return k.each(ctx, dir, func(name string, bytes int64, onDisk bool) {
		used.Volumes[name] += bytes
		if onDisk {
			used.Pod += bytes
		}
	})
}

// logs measures the logs of all containers.
func (k *Keeper) logs(ctx context.Context, dir string, used *plan.DiskUsage) error {
	return k.each(ctx, dir, func(name string, bytes int64, _ bool) {
		used.Containers[name] += bytes
		used.Pod += bytes
	})
}

// each measures each entry of a directory. onDisk says that it is on the file system of dir.
func (k *Keeper) each(ctx context.Context, dir string, take func(name string, bytes int64, onDisk bool)) error {
	type list struct {
		names  []string
		device uint64
	}
	found, err := hostfs.Ask(ctx, k.patience, dir, func() (list, error) {
		top, err := statAt(atCWD, dir)
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
	for _, name := range found.names {
		bytes, device, err := du(ctx, k.patience, filepath.Join(dir, name))
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("measure %s: %w", name, err))
		}
		take(name, bytes, device == found.device)
	}
	return errs
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
func (k *Keeper) layers(ctx context.Context, pod Pod, used *plan.DiskUsage) error {
	layers, err := k.config.Runtime.WritableLayers(ctx, pod.UID)
	if err != nil {
		return err
	}
	own, err := k.ownDisk(ctx)
	for name, bytes := range layers {
		used.Pod += bytes
		if err == nil && !own {
			used.Containers[name] += bytes
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
