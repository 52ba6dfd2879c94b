// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfiles

import (
	"io/fs"
	"os"
	"path"
)

// Read returns the content of the files that a directory shows, by their path in it.
func Read(dir *os.Root) (map[string][]byte, error) {
	files := map[string][]byte{}
	w := writer{dir: dir}
	version, err := w.currentVersion()
	if err != nil || version == "" {
		return files, err
	}
	return files, readBelow(dir, version, "", files)
}

// readBelow reads one directory of a version; below is its path there. What is no regular file
// was not written by Write.
func readBelow(dir *os.Root, version, below string, files map[string][]byte) error {
	names, err := namesIn(dir, path.Join(version, below))
	if err != nil {
		return err
	}
	for _, name := range names {
		at := path.Join(below, name)
		info, err := dir.Lstat(path.Join(version, at))
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = readBelow(dir, version, at, files)
		case info.Mode()&fs.ModeType == 0:
			files[at], err = dir.ReadFile(path.Join(version, at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
