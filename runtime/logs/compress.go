// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// compressor compresses rotated files, one at a time: no log waits for it.
type compressor struct {
	log  logr.Logger
	wake chan struct{}

	mu    sync.Mutex
	queue []string
	// current is being compressed until cancel is called; "" if none is.
	current string
	cancel  context.CancelFunc
}

func newCompressor(log logr.Logger) *compressor {
	return &compressor{log: log, wake: make(chan struct{}, 1)}
}

// want has a file compressed.
func (c *compressor) want(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == path || slices.Contains(c.queue, path) {
		return
	}
	c.queue = append(c.queue, path)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// drop gives a file up that is removed: while it is read its bytes stay on the disk.
func (c *compressor) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(p string) bool { return p == path })
	if c.current == path {
		c.cancel()
	}
}

// uses says that a file belongs to a compression under way.
func (c *compressor) uses(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != "" && strings.HasPrefix(path, c.current)
}

func (c *compressor) run(ctx context.Context) {
	for {
		path, fileCtx := c.take(ctx)
		if path == "" {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			}
			continue
		}
		c.one(fileCtx, path)
	}
}

func (c *compressor) one(ctx context.Context, path string) {
	defer c.done()
	err := compress(ctx, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		c.log.Error(err, "Failed to compress a rotated log; it stays as it is", "path", path)
	}
}

// take takes the next file; "" if there is none.
func (c *compressor) take(ctx context.Context) (string, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || ctx.Err() != nil {
		return "", ctx
	}
	c.current, c.queue = c.queue[0], c.queue[1:]
	ctx, c.cancel = context.WithCancel(ctx)
	return c.current, ctx
}

func (c *compressor) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	c.current, c.cancel = "", nil
}

// compress replaces a file by a compressed one. A file that was removed meanwhile is not
// brought back. (kubelet container_log_manager.go:compressLog)
func compress(ctx context.Context, path string) (err error) {
	from, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) //nolint:gosec // beside the path that the runtime names
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "compress", Path: path, Err: errNotRegular}
	}
	target := path + compressed
	if err := write(ctx, target+temporary, from, info.Mode().Perm()); err != nil {
		return errors.Join(err, remove(target+temporary))
	}
	if err := os.Rename(target+temporary, target); err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return remove(target)
	}
	return err
}

// write writes a file with what is read, compressed. When it returns the file is on the disk: the
// one that was read is removed next, and a machine that loses power keeps one of them.
func write(ctx context.Context, path string, from io.Reader, mode fs.FileMode) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode) //nolint:gosec // beside the path that the runtime names
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(to)
	_, err = io.Copy(zip, reader{ctx, from})
	if err = errors.Join(err, zip.Close()); err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}

// reader reads until its context is done.
type reader struct {
	ctx  context.Context //nolint:containedctx // io.Copy has none
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
