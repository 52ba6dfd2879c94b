// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// MaxTerminationMessage is how many bytes of a termination message file are
	// read, from its end. (container/runtime.go:MaxContainerTerminationMessageLength)
	MaxTerminationMessage = 4096
	// keptTerminationLogs is how many files of one container name are kept, so
	// that a crash loop does not fill the directory. Garbage collection keeps far
	// fewer containers.
	keptTerminationLogs = 16
)

// newTerminationLog makes the file a new container writes its message to. A name
// of its own for each instance keeps their messages apart.
// (kuberuntime_container.go:makeMounts)
func (m *Manager) newTerminationLog(pod *corev1.Pod, container string) (string, error) {
	dir := filepath.Join(m.podDir(pod.UID), containersDir, container)
	if err := os.MkdirAll(dir, podDirMode); err != nil {
		return "", err
	}
	if err := pruneTerminationLogs(dir); err != nil {
		return "", err
	}
	for {
		file := filepath.Join(dir, fmt.Sprintf("%08x", rand.Uint32())) //nolint:gosec // a name, not a secret
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return file, errors.Join(f.Chmod(0o666), f.Close())
	}
}

func pruneTerminationLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < keptTerminationLogs {
		return err
	}
	var files []fs.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, file := range files[min(len(files), keptTerminationLogs-1):] {
		if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			return err
		}
	}
	return nil
}

// TerminationMessage reads the end of a termination message file; found is false
// when there is none or it is empty, so that the logs may be looked at. What went
// wrong with reading it is the message.
// (kuberuntime_container.go:getTerminationMessage)
func (m *Manager) TerminationMessage(hostPath string) (message string, found bool) {
	content, err := readTail(hostPath, MaxTerminationMessage)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		return fmt.Sprintf("Error on reading termination log %s: %v", hostPath, err), true
	}
	return string(content), len(content) > 0
}

func readTail(path string, limit int64) (content []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) //nolint:gosec // the file the runtime has mounted
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	start := max(info.Size()-limit, 0)
	return io.ReadAll(io.NewSectionReader(f, start, limit))
}

var logName = regexp.MustCompile(`^(\d+)\.log(\..*)?$`)

// NextRestartCount is one more than the highest among the container's log files,
// for when no status tells; 0 without any. (kuberuntime_container.go:
// calcRestartCountByLogDir)
func (m *Manager) NextRestartCount(pod *corev1.Pod, container string) (int, error) {
	entries, err := os.ReadDir(filepath.Join(m.LogDirectory(pod), container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list logs of container %q: %w", container, err)
	}
	next := 0
	for _, entry := range entries {
		match := logName.FindStringSubmatch(entry.Name())
		if match == nil || entry.IsDir() {
			continue
		}
		if count, err := strconv.Atoi(match[1]); err == nil && count < 1<<31-1 {
			next = max(next, count+1)
		}
	}
	return next, nil
}
