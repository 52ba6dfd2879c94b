// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Without a cgroup of the pod there is nothing to read.
func TestUsageWithoutCgroup(t *testing.T) {
	for name, parent := range map[string]string{"none are kept": "", "not made yet": "/managedworkload-usage-test"} {
		if used, err := newManager(t, Config{Parent: parent}).UsageOf("0f1c-22"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, error %v", name, used, err)
		}
	}
}

// Page cache that was not used lately is not in use: the kernel takes it back before it kills.
func TestPageCacheIsNotInUse(t *testing.T) {
	m := cgroupManager(t)
	pod := withResources(corev1.ResourceRequirements{})
	prepare(t, m, pod)
	file := filepath.Join(t.TempDir(), "file")
	usage := controlFile(m.Path(pod.UID), "memory.usage_in_bytes", "memory.current")
	end := inCgroup(t, filepath.Dir(usage), "head -c 16000000 /dev/zero > "+file)
	defer end()
	all, err := strconv.ParseInt(strings.TrimSpace(read(t, usage)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if all < 16000000 {
		t.Skipf("the kernel counts %d bytes: it keeps no page cache of %s for whom has written it", all, file)
	}
	if use, err := inUse(m.Path(pod.UID), memoryLimit); err != nil || use > all-8000000 {
		t.Errorf("%d bytes of %d are in use, %v", use, all, err)
	}
}
