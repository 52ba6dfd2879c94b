// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"bytes"
	"io/fs"
	"path"
	"syscall"
)

// shows says that the current version is the wanted one to the last bit: paths, data,
// modes, owners.
func (w *writer) shows() (bool, error) {
	if w.current == "" {
		return false, nil
	}
	left := len(w.content.Files)
	same, err := w.sameDir(w.current, "", &left)
	return same && left == 0, err
}

// sameDir compares one directory of the current version; below is its path there.
func (w *writer) sameDir(full, below string, left *int) (bool, error) {
	names, err := namesIn(w.dir, full)
	if err != nil {
		return false, err
	}
	if len(names) == 0 && below != "" {
		return false, nil // no file asks for it
	}
	for _, name := range names {
		same, err := w.sameEntry(path.Join(full, name), path.Join(below, name), left)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (w *writer) sameEntry(full, below string, left *int) (bool, error) {
	info, err := w.dir.Lstat(full)
	if err != nil {
		return false, err
	}
	uid, gid := ids(info)
	if gid != w.content.group() {
		return false, nil
	}
	if info.IsDir() {
		if info.Mode()&^fs.ModeType != w.content.dirMode(dirMode) {
			return false, nil
		}
		return w.sameDir(full, below, left)
	}
	file, wanted := w.content.Files[below]
	if !wanted || info.Mode() != w.content.fileMode(file) || uid != file.owner() || info.Size() != int64(len(file.Data)) {
		return false, nil
	}
	*left--
	data, err := w.dir.ReadFile(full)
	return err == nil && bytes.Equal(data, file.Data), err
}

// ids are the user and group that own a file.
func ids(info fs.FileInfo) (uid, gid int) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(stat.Uid), int(stat.Gid)
}
