// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var statefileMistakes = []mistake{
	{"fsync of the data is left out", "Replace",
		"err = errors.Join(err, toDisk(f), f.Close())", "err = errors.Join(err, f.Close())"},
	{"fsync of the directory is left out", "syncDir",
		"return errors.Join(toDisk(d), d.Close())", "return d.Close()"},
	{"a file is written in place", "Replace",
		"f, err := os.OpenFile(path+TemporarySuffix,", "f, err := os.OpenFile(path,"},
}
