// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stampFormat is what follows the name of a log when it is rotated. (kubelet
	// container_log_manager.go:timestampFormat)
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	temporary   = ".tmp"
)

var errNotRegular = errors.New("not a regular file")

// logSize is the size of a log. No link is followed.
func logSize(path string) (int64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "lstat", Path: path, Err: errNotRegular}
	}
	return info.Size(), nil
}

// rotated is a file that a log was rotated to.
type rotated struct {
	path string
	// stamp orders the files of a log.
	stamp string
	size  int64
	// written is when it was written last.
	written time.Time
}

func (r rotated) isCompressed() bool { return strings.HasSuffix(r.path, compressed) }

// list returns the rotated files of a log, the oldest first, and what a rotation has left
// that was cut off: what was being compressed, and what has been. Files of any other name are
// not ours. (kubelet container_log_manager.go:filterUnusedLogs)
func list(log string) (files []rotated, leftovers []string, err error) {
	dir, prefix := filepath.Dir(log), filepath.Base(log)+"."
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // the container was removed
	}
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		if after, found := strings.CutPrefix(e.Name(), prefix); found && e.Type().IsRegular() && isStamp(stampOf(after)) {
			names[e.Name()] = true
		}
	}
	for name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, temporary) || names[name+compressed] {
			leftovers = append(leftovers, path)
			continue
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		files = append(files, rotated{path, stampOf(strings.TrimPrefix(name, prefix)), info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b rotated) int { return cmp.Compare(a.stamp, b.stamp) })
	return files, leftovers, nil
}

// Remove removes a log and all that rotations have made of it. What else is beside it, and a folder
// at its path, stays. It returns why files could not be removed; one that is gone is no error.
// (kubelet container_log_manager.go:Clean)
func Remove(log string) error {
	files, leftovers, err := list(log)
	errs := []error{err}
	for _, f := range files {
		leftovers = append(leftovers, f.path)
	}
	for _, path := range append(leftovers, log) {
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EISDIR) {
			errs = append(errs, &fs.PathError{Op: "unlink", Path: path, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Before is the file in which a log begins that was rotated: the newest, if it is not
// compressed; "" without one.
func Before(log string) string {
	files, _, err := list(log)
	if err != nil || len(files) == 0 || files[len(files)-1].isCompressed() {
		return ""
	}
	return files[len(files)-1].path
}

// maxInSecond is how many rotations of one second have names of their own.
const maxInSecond = 1000

// stampOf returns the stamp in what follows the name of a log.
func stampOf(after string) string {
	return strings.TrimSuffix(strings.TrimSuffix(after, temporary), compressed)
}

// isStamp reports whether a rotation may have made a stamp.
func isStamp(stamp string) bool {
	second, number, several := strings.Cut(stamp, ".")
	if _, err := time.Parse(stampFormat, second); err != nil || len(second) != len(stampFormat) {
		return false // parsing takes a fraction of a second, too
	}
	if !several {
		return true
	}
	n, err := strconv.Atoi(number)
	return err == nil && n > 0 && n < maxInSecond && number == fmt.Sprintf("%03d", n)
}

// nextStamp is the stamp of a rotation: later than that of all before, also if there are
// several in a second or the clock was set back.
func nextStamp(files []rotated, now time.Time) string {
	stamp := now.Format(stampFormat)
	if len(files) == 0 || stamp > files[len(files)-1].stamp {
		return stamp
	}
	last := files[len(files)-1].stamp
	second, number, _ := strings.Cut(last, ".")
	n, _ := strconv.Atoi(number) // 0 for the first of a second
	if n+1 < maxInSecond {
		return fmt.Sprintf("%s.%03d", second, n+1)
	}
	at, _ := time.Parse(stampFormat, second)
	return at.Add(time.Second).Format(stampFormat)
}

// rename renames a file, but replaces none.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system cannot
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: cmp.Or(err, error(unix.EEXIST))}
		}
		return os.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
