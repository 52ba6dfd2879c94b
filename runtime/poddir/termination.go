// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// keptTerminationLogs is how many files of one container name are kept, so that
	// a crash loop does not fill the directory. Garbage collection keeps far fewer
	// containers.
	keptTerminationLogs = 16
	// terminationLogSuffix follows the restart count in the name of a file.
	terminationLogSuffix = ".message"
)

// newTerminationLog makes the file a new container writes its message to. Each
// instance has one of its own, which keeps their messages apart: it is named by the
// restart count, which is greater than that of any container the runtime still has.
// A start that is tried again uses the same file.
// (kuberuntime_container.go:makeMounts)
func (m *Manager) newTerminationLog(pod *corev1.Pod, container string, restartCount int) (string, error) {
	dir := filepath.Join(m.podDir(pod.UID), containersDir, container)
	if err := os.MkdirAll(dir, podDirMode); err != nil {
		return "", err
	}
	if err := pruneTerminationLogs(dir, restartCount); err != nil {
		return "", err
	}
	file := filepath.Join(dir, strconv.Itoa(restartCount)+terminationLogSuffix)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666) //nolint:gosec // The container writes it, whoever its user is.
	if err != nil {
		return "", err
	}
	return file, errors.Join(f.Chmod(0o666), f.Close())
}

// pruneTerminationLogs removes the files of all instances but the latest before the
// new one: by their restart counts, not by their times, which follow a clock that may
// be set. Files without a count go with the pod.
func pruneTerminationLogs(dir string, restartCount int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		number, counted := strings.CutSuffix(entry.Name(), terminationLogSuffix)
		count, err := strconv.Atoi(number)
		if !counted || err != nil || (count <= restartCount && restartCount-count < keptTerminationLogs) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
