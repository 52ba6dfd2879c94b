// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// removeTimeout bounds what containerd gets to remove the pods by itself.
const removeTimeout = time.Minute

// takeDown ends and removes everything of the stack in a state folder: the
// processes, the containers through containerd as far as it still works and by
// force as far as not, then what they leave in the kernel. Everything is tried
// even if something fails. The caller holds the lock; s is the stack when it is
// this process's own, nil otherwise.
func takeDown(ctx context.Context, l layout, s *Stack) error {
	st, err := loadState(l)
	if err != nil {
		return err
	}
	if st == nil {
		return removeFolders(l)
	}
	if s != nil && s.state != nil {
		st = s.state // one owner of the file: components end at the same time
	}
	errs := []error{terminateAll(ctx, st, shimsOf(st)...)}
	for _, name := range []string{"manager", kubeletName, schedulerName, controllerManagerName} {
		errs = append(errs, st.terminate(ctx, name))
	}
	nodes := runtimes(l, st, s)
	errs = append(errs, removeAllContainers(ctx, st, nodes))
	for _, name := range []string{"kube-apiserver", "etcd", registryName} {
		errs = append(errs, st.terminate(ctx, name))
	}
	errs = append(errs, killStrays(ctx, l))
	for _, node := range nodes {
		errs = append(errs, unmountAll(l), unmountAll(node.layout), removeSlice(ctx, node.layout), removeCgroups(node.layout, st.Before))
		errs = append(errs, removeNetwork(ctx, node.layout, st.Before)...)
	}
	errs = append(errs, removeKubelet(l.kubeletNode())...)
	errs = append(errs, removeHost(l.hostNode()), removeServiceNetwork(ctx, l))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take down the stack in %s: %w", l.dir, err)
	}
	return removeFolders(l)
}

// shimsOf are the components of all shims.
func shimsOf(st *state) []string {
	names := []string{shimName}
	for i := 2; i <= st.Nodes; i++ {
		names = append(names, ofNode(shimName, i))
	}
	return names
}

// terminateAll ends recorded processes at once.
func terminateAll(ctx context.Context, st *state, names ...string) error {
	return atOnce(names, func(name string) error { return st.terminate(ctx, name) })
}

// atOnce does something with all at once, and returns all errors.
func atOnce[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = do(one) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// runtimeNode is a node of the stack with a containerd.
type runtimeNode struct {
	layout layout
	name   string     // of its containerd
	own    *Component // when the stack is this process's own
}

// runtimes are the nodes with a containerd, the kubelet's first.
func runtimes(l layout, st *state, s *Stack) []runtimeNode {
	kubelet := runtimeNode{layout: l.kubeletNode(), name: kubeletContainerdName}
	host := runtimeNode{layout: l.hostNode(), name: containerdName}
	if s != nil {
		kubelet.own, host.own = s.KubeletContainerd, s.Containerd
	}
	nodes := []runtimeNode{kubelet, host}
	for i, layout := range l.shimNodes(st.Nodes) {
		node := runtimeNode{layout: layout, name: ofNode(containerdName, i+1)}
		if s != nil && i < len(s.Nodes) {
			node.own = s.Nodes[i].Containerd
		}
		nodes = append(nodes, node)
	}
	return slices.DeleteFunc(nodes, func(node runtimeNode) bool { return !isRuntimeThere(node.layout) })
}

// removeAllContainers removes those of the kubelet first: a shim in a pod of it would
// start its own again.
func removeAllContainers(ctx context.Context, st *state, nodes []runtimeNode) error {
	remove := func(node runtimeNode) error {
		return errors.Join(removeContainers(ctx, node.layout, st, node.name, node.own)...)
	}
	var errs []error
	if len(nodes) > 0 && nodes[0].name == kubeletContainerdName {
		errs, nodes = append(errs, remove(nodes[0])), nodes[1:]
	}
	return errors.Join(append(errs, atOnce(nodes, remove))...)
}

// terminate ends a recorded process.
func (s *state) terminate(ctx context.Context, name string) error {
	p, recorded := s.recorded(name)
	if !recorded {
		return nil
	}
	if err := p.terminate(ctx, stopGrace); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return s.forget(name)
}

func isRuntimeThere(l layout) bool {
	_, err := os.Stat(l.containerdConfig())
	return err == nil
}

// removeContainers has containerd remove the pods, because only so their
// networks are undone in order; for this a containerd that crashed is started
// once more. What it cannot do, removeByForce does, so its failure is no error.
func removeContainers(ctx context.Context, l layout, st *state, name string, own *Component) []error {
	removing, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if removePods(removing, l) != nil && hasContainers(l) {
		reviveAndRemove(removing, l, st, name)
	}
	var errs []error
	if own != nil {
		errs = append(errs, own.Stop(ctx))
	}
	return append(errs, st.terminate(ctx, name), removeByForce(ctx, l))
}

// reviveAndRemove starts containerd again with the configuration it had.
func reviveAndRemove(ctx context.Context, l layout, st *state, name string) {
	if p, recorded := st.recorded(name); recorded && p.terminate(ctx, 0) != nil {
		return
	}
	found, err := findTools(Options{WithoutControlPlane: true})
	if err != nil {
		return
	}
	stack := l
	stack.dir = filepath.Dir(st.file)
	s := &Stack{layout: stack, state: st, tools: found, launcher: newLauncher(true)}
	defer s.launcher.close()
	c := containerdComponent(s, name, l)
	if c.Start(ctx) == nil {
		_ = removePods(ctx, l) // by force, if not so
	}
	_ = c.Stop(ctx) // its process is recorded, and terminated next
}

func hasContainers(l layout) bool {
	entries, err := filepath.Glob(filepath.Join(l.runcRoot(), "*", "*"))
	return err == nil && len(entries) > 0
}

// removeByForce removes containers that runc still knows.
func removeByForce(ctx context.Context, l layout) error {
	entries, err := filepath.Glob(filepath.Join(l.runcRoot(), "*", "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		root, id := filepath.Split(entry)
		err := run(ctx, command{path: "runc", args: []string{"--root", filepath.Clean(root), "delete", "--force", id}})
		if _, gone := os.Stat(entry); gone == nil {
			errs = append(errs, err)
		}
		errs = append(errs, removeCNIResults("*-"+id+"-*"))
	}
	return errors.Join(errs...)
}

// killStrays ends what no record names: containerd's shims, and a process whose
// starter died before it could record it.
func killStrays(ctx context.Context, l layout) error {
	found, err := strays(l)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range found {
		errs = append(errs, p.terminate(ctx, 0))
	}
	return errors.Join(errs...)
}

// unmountAll unmounts everything below the stack's folders, network namespaces
// included, the last mounted first.
func unmountAll(l layout) error {
	mounts, err := mountsBelow(l)
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	var errs []error
	for _, mount := range mounts {
		err := unix.Unmount(mount, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount, err))
		}
	}
	return errors.Join(errs...)
}

func mountsBelow(l layout) ([]string, error) {
	dirs := []string{l.dir, l.sockets}
	if l.onHost {
		dirs = append(dirs, hostFolders...)
	}
	infos, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		return !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(info.Mountpoint, dir+"/") }), false
	})
	if err != nil {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	points := make([]string, 0, len(infos))
	for _, info := range infos {
		points = append(points, info.Mountpoint)
	}
	return points, nil
}

// removeFolders removes the state folder. As long as something is mounted in
// it nothing is: that could be a host's folder.
func removeFolders(l layout) error {
	mounts, err := mountsBelow(l)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s is still mounted", strings.Join(mounts, ", "))
	}
	if l.sockets != l.dir {
		if err := os.RemoveAll(l.sockets); err != nil {
			return err
		}
	}
	// The lock stays until last, and with it the mark that the folder is a stack's.
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == filepath.Base(l.lockFile()) {
			continue
		}
		if err := os.RemoveAll(l.path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}
