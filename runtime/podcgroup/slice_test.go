// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/cgroups/v3"
	corev1 "k8s.io/api/core/v1"
)

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// stopUnit is for the end of a test, when its context is over.
func stopUnit(t *testing.T, name string) {
	if out, err := exec.CommandContext(context.Background(), "systemctl", "stop", name).CombinedOutput(); err != nil {
		t.Errorf("stop %s: %v: %s", name, err, out)
	}
}

// The limits of a pod's slice are those of its pod, also after they changed and
// systemd has applied what it knows once more; the slice goes with the pod.
func TestSliceLifecycle(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getuid() != 0 || cgroups.Mode() != cgroups.Unified {
		t.Skip("needs root, systemd and cgroup v2")
	}
	parent := "mwtest_" + strconv.Itoa(os.Getpid()) + ".slice"
	m := newManager(t, Config{Parent: parent, Driver: DriverSystemd})
	t.Cleanup(func() { stopUnit(t, parent) })
	limited := func(cpu, memory string) *corev1.Pod {
		return withResources(corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpu, memory)})
	}
	pod := limited("125m", "64Mi")
	prepare(t, m, pod)
	path := m.Path(pod.UID)
	check := func(when, memory, quota string) {
		t.Helper()
		for file, want := range map[string]string{"memory.max": memory, "cpu.max": quota + " 100000"} {
			if got := strings.TrimSpace(read(t, filepath.Join(cgroupMount, path, file))); got != want {
				t.Errorf("%s %s: %s, want %s", file, when, got, want)
			}
		}
	}
	check("at first", "67108864", "12500")
	more := limited("2", "128Mi")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if err := m.RaiseLimits(t.Context(), pod, more, name); err != nil {
			t.Fatal(err)
		}
	}
	check("after a change", "134217728", "200000")
	systemctl(t, "daemon-reload")
	check("after a reload", "134217728", "200000")
	free := withResources(corev1.ResourceRequirements{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if err := m.LowerLimits(t.Context(), more, free, name); err != nil {
			t.Fatal(err)
		}
	}
	systemctl(t, "daemon-reload")
	check("without limits", "max", "max")
	if err := m.Remove(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if state := systemctl(t, "show", "--property=ActiveState", "--value", filepath.Base(path)); cgroupExists(path) || state != "inactive" {
		t.Errorf("the slice is still there, %s", state)
	}
}

func TestSliceProperties(t *testing.T) {
	values := func(l limits) map[string]any {
		values := map[string]any{}
		for _, p := range sliceProperties(l) {
			values[p.Name] = p.Value.Value()
		}
		return values
	}
	const unlimited = uint64(math.MaxUint64)
	for name, tc := range map[string]struct {
		limits                      limits
		memory, quota, weight, pids uint64
	}{
		"limited":          {limits{1024, 50000, 4096, 70}, 4096, 500000, 100, 70},
		"no whole percent": {limits{1024, 12500, 4096, -1}, 4096, 130000, 100, unlimited},
		"unlimited":        {limits{2, -1, -1, -1}, unlimited, unlimited, 1, unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			got := values(tc.limits)
			if got["MemoryMax"] != tc.memory || got["CPUQuotaPerSecUSec"] != tc.quota || got["CPUWeight"] != tc.weight || got["TasksMax"] != tc.pids {
				t.Errorf("%v", got)
			}
		})
	}
}
