// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// linkSuffix ends the name of a link. (kubelet kuberuntime/legacy.go:legacyLogSuffix)
	linkSuffix = ".log"
	// maxName is the longest name of a file. (kubelet kuberuntime/legacy.go:ext4MaxFileNameLen)
	maxName = 255
)

// links are links to logs by names from which collectors take pod, namespace, container and
// ID. A link in the directory is ours if it points below root; all others stay.
type links struct {
	dir, root string
	// made are those that are there as far as is known, and others' after a sweep; nil before the
	// first.
	made map[string]bool
	// again: the directory is gone.
	again bool
}

// linkName is the name of the link to a container's log. (kubelet
// kuberuntime/legacy.go:logSymlink)
func linkName(c Container) string {
	name := fmt.Sprintf("%s_%s_%s-%s", c.PodName, c.PodNamespace, c.Name, c.ID)
	return name[:min(len(name), maxName-len(linkSuffix))] + linkSuffix
}

// update makes the links to all logs that exist, and removes those of containers that are
// gone; those of containers whose logs are not known stay as they are. A kubelet of the node may
// remove a link while its log is being rotated: it is made again.
func (l *links) update(logs map[string]*containerLog, unread []Container) error {
	if l.dir == "" {
		return nil
	}
	if l.made == nil || l.again {
		if err := l.sweep(); err != nil {
			return err
		}
	}
	var errs []error
	wanted := map[string]bool{}
	for _, c := range unread {
		wanted[linkName(c)] = true
	}
	for _, log := range logs {
		name := linkName(log.Container)
		wanted[name] = true
		if err := l.ensure(name, log.path); err != nil {
			errs = append(errs, err)
		}
	}
	for name := range l.made {
		if !wanted[name] {
			if err := l.remove(name); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(l.made, name)
		}
	}
	return errors.Join(errs...)
}

// sweep finds the links of an earlier process among all that are there.
func (l *links) sweep() error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil { //nolint:gosec // collectors read it
		return err
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	l.made, l.again = map[string]bool{}, false
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			l.made[e.Name()] = true
		}
	}
	return nil
}

// isOurs is whether a name is that of a link that points below root.
func (l *links) isOurs(name string) bool {
	target, err := os.Readlink(filepath.Join(l.dir, name))
	return err == nil && strings.HasPrefix(filepath.Clean(target), l.root+string(filepath.Separator))
}

// ensure makes the link to a log that exists.
func (l *links) ensure(name, target string) error {
	path := filepath.Join(l.dir, name)
	found, err := os.Readlink(path)
	if err == nil && found == target {
		l.made[name] = true
		return nil
	}
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && l.isOurs(name) {
		if err := remove(path); err != nil {
			return err
		}
	}
	if err := os.Symlink(target, path); err != nil {
		l.again = l.again || errors.Is(err, fs.ErrNotExist)
		return err
	}
	l.made[name] = true
	return nil
}

// remove removes a link of ours.
func (l *links) remove(name string) error {
	if !l.isOurs(name) {
		return nil // a kubelet's, or ours was replaced
	}
	return remove(filepath.Join(l.dir, name))
}
