// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TemporarySuffix is the end of the name of a file that is being written. One that
// a crash left behind holds nothing of worth.
const TemporarySuffix = ".tmp"

// toDisk brings a file or a folder to the disk.
var toDisk = (*os.File).Sync

// Replace replaces a file, or makes it, with mode 0600: the data are on the disk
// before the name is.
func Replace(path string, data []byte) error {
	f, err := os.OpenFile(path+TemporarySuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the path is our own
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, toDisk(f), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+TemporarySuffix, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Remove removes a file and what a failed Replace has left of it; a missing one is no
// error.
func Remove(path string) error {
	for _, name := range []string{path, path + TemporarySuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the path is our own
	if err != nil {
		return err
	}
	return errors.Join(toDisk(d), d.Close())
}
