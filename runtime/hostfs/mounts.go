// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// maxUnmountPasses bounds how often the mount table is read for one removal;
// each pass unmounts something.
const maxUnmountPasses = 1000

// ErrCovered says that a mount which shares its events with the node's lies below
// another one, so that neither can be undone without unmounting on the node.
var ErrCovered = errors.New("a mount of the node lies on a mount that shares events with it")

// MountsAt returns the mounts on exactly that path, the one on top last. It reads
// the mount table and touches no file system. The path has no symbolic links.
func MountsAt(path string) ([]*mountinfo.Info, error) {
	return mounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != path, false })
}

// MountsBelow returns the mounts on that directory and below it, in the order in
// which they were made. Those that show up there at another path count too: in a
// container, where the node's root is mounted, the shim sees its own mounts again.
// The path has no symbolic links.
func MountsBelow(dir string) ([]*mountinfo.Info, error) {
	all, err := mounts(nil)
	if err != nil {
		return nil, err
	}
	return below(all, dir), nil
}

func below(all []*mountinfo.Info, dir string) []*mountinfo.Info {
	byID := map[int]*mountinfo.Info{}
	for _, m := range all {
		byID[m.ID] = m
	}
	holder := holderOf(all, dir)
	found := map[int]bool{}
	for _, m := range all {
		parent := byID[m.Parent]
		found[m.ID] = isBelow(m.Mountpoint, dir) ||
			holder != nil && parent != nil && parent.Major == holder.Major && parent.Minor == holder.Minor &&
				isBelow(inside(parent, m.Mountpoint), inside(holder, dir))
	}
	addChildren(all, found)
	return slices.DeleteFunc(slices.Clone(all), func(m *mountinfo.Info) bool { return !found[m.ID] })
}

// holderOf is the mount that a directory lies on, nil if the table does not say.
func holderOf(all []*mountinfo.Info, dir string) *mountinfo.Info {
	var holder *mountinfo.Info
	for _, m := range all {
		if !isBelow(m.Mountpoint, dir) && isBelow(dir, m.Mountpoint) &&
			(holder == nil || len(m.Mountpoint) >= len(holder.Mountpoint)) {
			holder = m
		}
	}
	return holder
}

// addChildren adds the mounts on those that were found; a mount may stand before its
// parent.
func addChildren(all []*mountinfo.Info, found map[int]bool) {
	for more := true; more; {
		more = false
		for _, m := range all {
			if !found[m.ID] && found[m.Parent] {
				found[m.ID], more = true, true
			}
		}
	}
}

// isBelow says that path is dir or below it.
func isBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// inside is where a path that lies on a mount lies in its file system.
func inside(m *mountinfo.Info, path string) string {
	return filepath.Join(m.Root, strings.TrimPrefix(path, m.Mountpoint))
}

func mounts(filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	found, err := mountinfo.GetMounts(filter)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return found, nil
}

// Mounted asks the node's own mount table whether something is mounted on a path,
// when this process runs in a container; known is false where it does not, or
// cannot see that table.
func (r Root) Mounted(path string) (there, known bool, err error) {
	if r == "" {
		return false, false, nil
	}
	table, err := r.Open("/proc/1/mountinfo", unix.O_RDONLY)
	if err != nil {
		return false, false, nil // there is nothing to compare with
	}
	defer table.Close() //nolint:errcheck // only read
	found, err := mountinfo.GetMountsFromReader(table, func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != path, false })
	if err != nil {
		return false, false, fmt.Errorf("list the node's mounts: %w", err)
	}
	return len(found) > 0, true, nil
}

// Bind mounts an open file on target. The node's mounts below it appear there too,
// and go with them. Unless shared is set nothing that happens there gets back:
// a bind is a peer of the mount it was made from, so that unmounting something
// below the bind would unmount it on the node. It is made a slave after it is in
// its place, because a place below a shared mount makes it shared again.
func Bind(source *os.File, target string, shared bool) error {
	if err := unix.Mount(FDPath(source), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind to %q: %w", target, err)
	}
	if shared {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_SLAVE, ""); err != nil {
		err = fmt.Errorf("make %q a slave: %w", target, err)
		return errors.Join(err, unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// UnmountBelow unmounts everything on dir and below it, the deepest and the latest
// mount first. A mount in use is an error (EBUSY). Nothing of it reaches the node's
// own mounts: where a mount shares events, the tree is made private before. A file
// system that does not answer is detached instead.
func (p *Patience) UnmountBelow(ctx context.Context, dir string) error {
	return p.unmountAll(ctx, dir, 0)
}

// DetachBelow is UnmountBelow for mounts that may be in use: those who use them
// keep them.
func (p *Patience) DetachBelow(ctx context.Context, dir string) error {
	return p.unmountAll(ctx, dir, unix.MNT_DETACH)
}

func (p *Patience) unmountAll(ctx context.Context, dir string, flags int) error {
	for range maxUnmountPasses {
		left, err := MountsBelow(dir)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, tree := range trees(left) {
			if err := p.unmountTree(ctx, tree, flags); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("unmount %q: there are always more mounts", dir)
}

// mountTree is a mount that can be reached by its path, and those below it, each
// after the one that it is mounted on.
type mountTree struct {
	mounts []*mountinfo.Info
	// covered are the mounts under it on the same path, which cannot be reached.
	covered []*mountinfo.Info
}

// trees groups mounts by the reachable ones that nothing else of them is above.
func trees(all []*mountinfo.Info) []mountTree {
	byID, children := map[int]*mountinfo.Info{}, map[int][]*mountinfo.Info{}
	for _, m := range all {
		byID[m.ID] = m
	}
	for _, m := range all {
		if byID[m.Parent] != nil && m.Parent != m.ID {
			children[m.Parent] = append(children[m.Parent], m)
		}
	}
	var out []mountTree
	for _, root := range all {
		if byID[root.Parent] != nil && root.Parent != root.ID {
			continue
		}
		tree := mountTree{}
		for over := root; over != nil; {
			root, over = over, nil
			for _, child := range children[root.ID] {
				if child.Mountpoint == root.Mountpoint {
					tree.covered, over = append(tree.covered, root), child
				}
			}
		}
		tree.mounts = append(tree.mounts, root)
		for i := 0; i < len(tree.mounts); i++ {
			tree.mounts = append(tree.mounts, children[tree.mounts[i].ID]...)
		}
		out = append(out, tree)
	}
	return out
}

// unmountTree unmounts a tree from its leaves to its root.
func (p *Patience) unmountTree(ctx context.Context, tree mountTree, flags int) error {
	root := tree.mounts[0].Mountpoint
	if anyShared(tree.covered) {
		return fmt.Errorf("unmount %q: %w", root, ErrCovered)
	}
	if len(tree.mounts) > 1 && anyShared(tree.mounts) {
		err := p.Do(ctx, "unmount of "+root, func() error { return unix.Mount("", root, "", unix.MS_REC|unix.MS_PRIVATE, "") })
		if err != nil {
			return fmt.Errorf("make the mounts on %q private: %w", root, err)
		}
	}
	for i, mount := range slices.Backward(tree.mounts) {
		err := p.unmount(ctx, mount.Mountpoint, flags)
		if p.hung(mount.Mountpoint, err) && (i > 0 || flags == 0) {
			return p.unmount(ctx, root, unix.MNT_DETACH)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hung says that a mount could not be undone because its file system does not answer:
// the call itself, or one of this process that hangs and uses the mount.
func (p *Patience) hung(path string, err error) bool {
	return errors.Is(err, ErrHung) || errors.Is(err, unix.EBUSY) && p.hangs(path)
}

// unmount does not wait for other calls about the path: they may hang.
func (p *Patience) unmount(ctx context.Context, path string, flags int) error {
	key := "unmount of " + path
	if flags&unix.MNT_DETACH != 0 {
		key = "detachment of " + path
	}
	err := p.Do(ctx, key, func() error { return unix.Unmount(path, flags|unix.UMOUNT_NOFOLLOW) })
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it is not mounted any more
		return fmt.Errorf("unmount %q: %w", path, err)
	}
	return nil
}

// anyShared says that one of the mounts passes on what is unmounted on it.
func anyShared(mounts []*mountinfo.Info) bool {
	for _, m := range mounts {
		for field := range strings.FieldsSeq(m.Optional) {
			if strings.HasPrefix(field, "shared:") {
				return true
			}
		}
	}
	return false
}
