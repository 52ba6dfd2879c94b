// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rotate rotates a log: as the kubelet does, but that compression comes later, for the log
// grows meanwhile, and that all rotated files but the newest are bounded in bytes, too.
// (kubelet container_log_manager.go:rotateLog)
func (m *Manager) rotate(ctx context.Context, l *containerLog) error {
	files, err := m.usable(l)
	if err != nil {
		return err
	}
	// With the log that is rotated and the one that is opened there are as many as allowed.
	if files, err = m.removeOldest(files, len(files)-max(m.config.MaxFiles-2, 0)); err != nil {
		return err
	}
	target := l.path + "." + nextStamp(files, time.Now())
	if err := rename(l.path, target); err != nil {
		return fmt.Errorf("rotate the log: %w", err)
	}
	if err := m.reopen(ctx, l); err != nil {
		// Otherwise the container would write to a file that is compressed and removed.
		return errors.Join(fmt.Errorf("reopen the log: %w", err), rename(target, l.path))
	}
	_, err = m.removeOldest(files, m.tooLarge(files))
	return err
}

// usable lists the rotated files of a log, and removes what a rotation has left that was cut
// off.
func (m *Manager) usable(l *containerLog) ([]rotated, error) {
	files, leftovers, err := list(l.path)
	if err != nil {
		return nil, fmt.Errorf("list rotated logs: %w", err)
	}
	for _, path := range leftovers {
		if m.zip.uses(path) {
			continue
		}
		if err := remove(path); err != nil {
			return nil, fmt.Errorf("remove what a rotation has left: %w", err)
		}
	}
	return files, nil
}

// tooLarge is how many of the oldest files are removed so that the others have no more bytes
// than the log may have in all its files.
func (m *Manager) tooLarge(files []rotated) int {
	var bytes int64
	for _, f := range files {
		bytes += f.size
	}
	n := 0
	for ; n < len(files) && bytes > m.config.MaxSize*int64(m.config.MaxFiles); n++ {
		bytes -= files[n].size
	}
	return n
}

// removeOldest removes the first n files and returns the others.
func (m *Manager) removeOldest(files []rotated, n int) ([]rotated, error) {
	for ; n > 0; n-- {
		m.zip.drop(files[0].path)
		if err := remove(files[0].path); err != nil {
			return nil, fmt.Errorf("remove a rotated log: %w", err)
		}
		files = files[1:]
	}
	return files, nil
}

// tidy removes leftovers and has rotated files compressed: not the newest, which a collector
// may still read, and none that is so young that it may soon be removed. (kubelet
// container_log_manager.go:rotateLog)
func (m *Manager) tidy(l *containerLog) error {
	files, err := m.usable(l)
	if err != nil {
		return err
	}
	l.untidy = false
	for _, f := range files[:max(len(files)-1, 0)] {
		switch {
		case f.isCompressed() || !l.Running:
		case time.Since(f.written) < period:
			l.untidy = true
		default:
			m.zip.want(f.path)
		}
	}
	return nil
}
