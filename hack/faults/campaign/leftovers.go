// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/faults/history"
	"github.com/managedworkload/managedworkload/hack/faults/inject"
)

const (
	// settleTimeout is what the shim, containerd and the kernel have to remove
	// what the last workloads used.
	settleTimeout = 90 * time.Second
	cgroupRoot    = "/sys/fs/cgroup"
)

// leftovers are what workloads leave on a node and in the API, by name. The value
// is set for a runtime shim that holds no container.
type leftovers map[string]inject.RuntimeShim

// awaitNothingLeft waits until there is no more than before the workloads, and
// returns what stays: runtime shims without containers, and all else.
func (c *campaign) awaitNothingLeft(ctx context.Context) (left []string, shims []history.EmptyShim, err error) {
	end := time.Now().Add(settleTimeout)
	for {
		now, err := c.look(ctx)
		if err == nil {
			maps.DeleteFunc(now, func(thing string, _ inject.RuntimeShim) bool { _, before := c.baseline[thing]; return before })
		}
		if err == nil && len(now) == 0 || time.Now().After(end) {
			left, shims = now.sorted()
			return left, shims, err
		}
		if err := wait(ctx, time.Second); err != nil {
			return nil, nil, err
		}
	}
}

// sorted returns the names in their order, those of empty runtime shims apart.
func (f leftovers) sorted() (left []string, shims []history.EmptyShim) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if s := f[name]; s.PID == 0 {
			left = append(left, name)
		} else {
			shims = append(shims, history.EmptyShim{Name: name, Sandbox: s.SandboxID, Started: s.Started})
		}
	}
	return left, shims
}

// look lists everything that a workload can leave behind.
func (c *campaign) look(ctx context.Context) (leftovers, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*callTimeout)
	defer cancel()
	found := leftovers{}
	for _, list := range []func(context.Context, leftovers) error{
		c.objects, c.runtimeHas, c.cgroups, c.mounts, c.files, c.processes,
	} {
		if err := list(ctx, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (c *campaign) objects(ctx context.Context, found leftovers) error {
	var workloads v1alpha1.ManagedWorkloadList
	var nodeWorkloads v1alpha1.NodeWorkloadList
	for _, list := range []client.ObjectList{&workloads, &nodeWorkloads} {
		if err := c.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	for _, o := range workloads.Items {
		found[fmt.Sprintf("ManagedWorkload %s, finalizers %v", o.Name, o.Finalizers)] = inject.RuntimeShim{}
	}
	for _, o := range nodeWorkloads.Items {
		found[fmt.Sprintf("NodeWorkload %s %s, finalizers %v", o.Name, o.UID, o.Finalizers)] = inject.RuntimeShim{}
	}
	return nil
}

func (c *campaign) runtimeHas(ctx context.Context, found leftovers) error {
	sandboxes, err := c.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, s := range sandboxes.GetItems() {
		found[fmt.Sprintf("sandbox %s %s %s", s.GetMetadata().GetName(), s.GetId(), s.GetState())] = inject.RuntimeShim{}
	}
	containers, err := c.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, one := range containers.GetContainers() {
		found[fmt.Sprintf("container %s %s %s", one.GetMetadata().GetName(), one.GetId(), one.GetState())] = inject.RuntimeShim{}
	}
	return nil
}

func (c *campaign) cgroups(_ context.Context, found leftovers) error {
	for _, pattern := range []string{
		filepath.Join(cgroupRoot, c.stack.CgroupParent(), "*"), filepath.Join(cgroupRoot, "*", c.stack.CgroupParent(), "*"),
	} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				found["cgroup "+dir] = inject.RuntimeShim{}
			}
		}
	}
	return nil
}

// mounts include network namespaces.
func (c *campaign) mounts(_ context.Context, found leftovers) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(c.stack.StateDir()))
	if err != nil {
		return err
	}
	for _, m := range mounts {
		found["mount "+m.Mountpoint] = inject.RuntimeShim{}
	}
	return nil
}

// files are checkpoints, pods' folders and addresses.
func (c *campaign) files(_ context.Context, found leftovers) error {
	for _, pattern := range []string{
		filepath.Join(c.stack.ShimStateDir(), "workloads", "*"), filepath.Join(c.stack.ShimStateDir(), "pods", "*"),
		filepath.Join(c.stack.PodLogDir(), "*"), filepath.Join(c.stack.StateDir(), "cni", "ipam", "*", "10.*"),
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			found["file "+path] = inject.RuntimeShim{}
		}
	}
	return nil
}

// processes are runtime shims, and whatever runs the test program in a container.
func (c *campaign) processes(_ context.Context, found leftovers) error {
	shims, err := inject.RuntimeShims(c.stack.StateDir())
	if err != nil {
		return err
	}
	for _, s := range shims {
		name, empty := fmt.Sprintf("process %d, runtime shim of %s", s.PID, s.SandboxID), inject.RuntimeShim{}
		if s.Empty() {
			name, empty = "empty "+name, s
		}
		found[name] = empty
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !strings.Contains(string(groups), c.stack.CgroupParent()+"/") {
			continue // it ended, or is none of ours
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		found[fmt.Sprintf("process %s %s", filepath.Base(dir), strings.ReplaceAll(string(cmdline), "\x00", " "))] = inject.RuntimeShim{}
	}
	return nil
}
