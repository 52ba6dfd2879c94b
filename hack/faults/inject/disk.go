// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// DiskFault is what a disk answers.
type DiskFault string

// The answers of a disk.
const (
	// NoSpace: writes fail with ENOSPC.
	NoSpace DiskFault = "ENOSPC"
	// IOError: reads and writes fail with EIO.
	IOError DiskFault = "EIO"
	// NoAnswer: nothing is answered until the disk is healed.
	NoAnswer DiskFault = "no answer"
)

// unmountWait is how long the end of the file system is waited for.
const unmountWait = 5 * time.Second

// Disk passes a folder on through FUSE, and fails when it is to.
type Disk struct {
	server     *fuse.Server
	mountPoint string

	mu     sync.Mutex
	fault  DiskFault
	healed chan struct{}
	failed int
}

// MountDisk mounts what is in a folder at a mount point.
func MountDisk(folder, mountPoint string) (*Disk, error) {
	for _, dir := range []string{folder, mountPoint} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	d := &Disk{mountPoint: mountPoint}
	root := &fs.LoopbackRoot{Path: folder}
	top := &diskNode{LoopbackNode: &fs.LoopbackNode{RootData: root}, disk: d}
	root.RootNode = top
	none := time.Duration(0)
	var err error
	d.server, err = fs.Mount(mountPoint, top, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "faulty-disk", DisableXAttrs: true},
		// Nothing is cached, so that every access reaches the faults.
		EntryTimeout: &none, AttrTimeout: &none,
	})
	if err != nil {
		return nil, fmt.Errorf("mount the state disk: %w", err)
	}
	return d, nil
}

// Unmount heals the disk and unmounts it. A copy of the mount in another mount
// namespace may keep the file system; it ends with this process.
func (d *Disk) Unmount() error {
	d.Heal()
	if err := unix.Unmount(d.mountPoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount the state disk: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		d.server.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(unmountWait):
	}
	return nil
}

// Break has the disk answer with a fault, instead of the one before.
func (d *Disk) Break(fault DiskFault) {
	d.Heal() // what hangs looks again
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.healed, d.failed = fault, make(chan struct{}), 0
}

// Met is how many accesses the fault has hit until now.
func (d *Disk) Met() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Heal ends a fault, and returns how many accesses it has hit.
func (d *Disk) Heal() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault != "" {
		d.fault = ""
		close(d.healed)
	}
	return d.failed
}

// gate returns the error that an access ends with, or waits.
func (d *Disk) gate(ctx context.Context, write bool) syscall.Errno {
	for {
		d.mu.Lock()
		fault, healed := d.fault, d.healed
		if fault == IOError || fault == NoAnswer || fault == NoSpace && write {
			d.failed++
		}
		d.mu.Unlock()
		switch {
		case fault == IOError:
			return syscall.EIO
		case fault == NoSpace && write:
			return syscall.ENOSPC
		case fault != NoAnswer:
			return fs.OK
		}
		select {
		case <-healed:
		case <-ctx.Done():
			return syscall.EINTR // a signal; one that ends the process must not wait
		}
	}
}

// diskNode is a file or folder of a Disk.
type diskNode struct {
	*fs.LoopbackNode
	disk *Disk
}

// WrapChild implements fs.NodeWrapChilder.
func (n *diskNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	if node, ok := child.(*fs.LoopbackNode); ok {
		return &diskNode{LoopbackNode: node, disk: n.disk}
	}
	return child
}

// Create implements fs.NodeCreater.
func (n *diskNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.disk.gate(ctx, true); errno != fs.OK {
		return nil, nil, 0, errno
	}
	inode, handle, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.disk.wrap(handle, errno), fuseFlags, errno
}

// Open implements fs.NodeOpener.
func (n *diskNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.disk.gate(ctx, false); errno != fs.OK {
		return nil, 0, errno
	}
	handle, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return n.disk.wrap(handle, errno), fuseFlags, errno
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *diskNode) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.disk.gate(ctx, false); errno != fs.OK {
		return nil, 0, errno
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

// Rename implements fs.NodeRenamer.
func (n *diskNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if errno := n.disk.gate(ctx, true); errno != fs.OK {
		return errno
	}
	return n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
}

// Unlink implements fs.NodeUnlinker.
func (n *diskNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.disk.gate(ctx, false); errno != fs.OK {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

// wrap makes the accesses to an open file go through the disk's faults.
func (d *Disk) wrap(handle fs.FileHandle, errno syscall.Errno) fs.FileHandle {
	file, ok := handle.(*fs.LoopbackFile)
	if !ok || errno != fs.OK {
		return handle
	}
	return &diskFile{LoopbackFile: file, disk: d}
}

// diskFile is an open file of a Disk.
type diskFile struct {
	*fs.LoopbackFile
	disk *Disk
}

// PassthroughFd keeps the kernel from going past the faults.
func (f *diskFile) PassthroughFd() (int, bool) { return 0, false }

// Read implements fs.FileReader.
func (f *diskFile) Read(ctx context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.disk.gate(ctx, false); errno != fs.OK {
		return nil, errno
	}
	return f.LoopbackFile.Read(ctx, buf, off)
}

// Write implements fs.FileWriter.
func (f *diskFile) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if errno := f.disk.gate(ctx, true); errno != fs.OK {
		return 0, errno
	}
	return f.LoopbackFile.Write(ctx, data, off)
}

// Fsync implements fs.FileFsyncer.
func (f *diskFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if errno := f.disk.gate(ctx, true); errno != fs.OK {
		return errno
	}
	return f.LoopbackFile.Fsync(ctx, flags)
}
