// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// keptTerminationLogs is how many files of one container name are kept, so that
// a crash loop does not fill the directory. Garbage collection keeps far fewer
// containers.
const keptTerminationLogs = 16

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
