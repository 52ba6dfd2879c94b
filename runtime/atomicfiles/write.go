// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	// versionName is how the directory of a version is named, by the time.
	versionName = "..2006_01_02_15_04_05.000000000"
)

// Write makes a directory show the content, and says whether it showed something else
// before. What is there already is left as it is. After an error the directory shows
// either the old files or the new ones. (volume/util/atomic_writer.go:Write)
func Write(ctx context.Context, dir *os.Root, content Content) (changed bool, err error) {
	files, err := cleaned(content.Files)
	if err != nil {
		return false, err
	}
	content.Files = files
	w := writer{dir: dir, content: &content}
	if err := w.own(".", content.dirMode(content.Mode), content.group()); err != nil {
		return false, err
	}
	if w.current, err = w.currentVersion(); err != nil {
		return false, err
	}
	same, err := w.shows()
	if err != nil {
		return false, err
	}
	if !same {
		if err := w.replace(ctx); err != nil {
			return false, err
		}
	}
	return !same, errors.Join(w.makeMountpoints(), w.link(), w.removeOld(ctx))
}

// writer is one write.
type writer struct {
	dir     *os.Root
	content *Content
	// current is the name of the version that ..data leads to; empty if there is none.
	current string
}

// currentVersion trusts only a link that this package could have made.
func (w *writer) currentVersion() (string, error) {
	name, err := w.dir.Readlink(dataLink)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info, err := w.dir.Lstat(name); err != nil || !info.IsDir() || !isVersion(name) {
		return "", nil //nolint:nilerr // what is not a version of ours is replaced
	}
	return name, nil
}

func isVersion(name string) bool {
	return strings.HasPrefix(name, "..") && len(name) > 2 && !strings.Contains(name, "/")
}

// replace writes a new version and lets ..data lead to it.
func (w *writer) replace(ctx context.Context) error {
	version, err := w.newVersion()
	if err == nil {
		if err = w.writeFiles(version); err == nil {
			err = w.swap(version)
		}
		if err != nil {
			err = errors.Join(err, w.remove(ctx, version))
		}
	}
	if err == nil {
		w.current = version
	}
	return err
}

func (w *writer) newVersion() (string, error) {
	name := time.Now().UTC().Format(versionName)
	for again := 1; ; again++ {
		err := w.makeDir(name)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		name = time.Now().UTC().Format(versionName) + "_" + strconv.Itoa(again)
	}
}

func (w *writer) writeFiles(version string) error {
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(w.content.Files)) {
		if err := w.makeParents(version, path.Dir(name), made); err != nil {
			return err
		}
		file := w.content.Files[name]
		full := path.Join(version, name)
		if err := w.dir.WriteFile(full, file.Data, 0o600); err != nil {
			return err
		}
		// The mode comes last: a change of the owner may take bits from it.
		if err := w.dir.Lchown(full, file.owner(), w.content.group()); err != nil {
			return err
		}
		if err := w.dir.Chmod(full, w.content.fileMode(file)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) makeParents(version, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := w.makeParents(version, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.makeDir(path.Join(version, dir))
}

// makeDir makes a directory whose mode does not depend on the umask.
func (w *writer) makeDir(name string) error {
	if err := w.dir.Mkdir(name, dirMode); err != nil {
		return err
	}
	return w.own(name, w.content.dirMode(dirMode), w.content.group())
}

// own gives a directory its group and mode, if it has others.
func (w *writer) own(name string, mode fs.FileMode, group int) error {
	info, err := w.dir.Lstat(name)
	if err != nil {
		return err
	}
	if _, gid := ids(info); gid != group {
		if err := w.dir.Lchown(name, -1, group); err != nil {
			return err
		}
	} else if info.Mode()&^fs.ModeType == mode {
		return nil
	}
	return w.dir.Chmod(name, mode)
}

// swap is the moment at which readers see the new version.
func (w *writer) swap(version string) error {
	if err := w.dir.Remove(newDataLink); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.dir.Symlink(version, newDataLink); err != nil {
		return err
	}
	if err := w.dir.Lchown(newDataLink, -1, w.content.group()); err != nil {
		return err
	}
	if err := w.dir.Rename(newDataLink, dataLink); err != nil {
		return fmt.Errorf("publish the new files: %w", err)
	}
	return nil
}
