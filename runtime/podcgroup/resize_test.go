// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// The limits of a pod's cgroup grow before those of its containers and shrink
// after them; a manager that has only just started knows them from the pod as it
// was.
func TestResizeLimits(t *testing.T) {
	limited := func(cpu, memory string) *corev1.Pod {
		return withResources(corev1.ResourceRequirements{Limits: list(cpu, memory), Requests: list(cpu, memory)})
	}
	m := cgroupManager(t)
	before := limited("1", "64Mi")
	prepare(t, m, before)
	path := m.Path(before.UID)
	m.forget(before.UID)
	steps := []struct {
		what       string
		change     func(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error
		name       corev1.ResourceName
		pod        *corev1.Pod
		wantMemory string
		wantQuota  string
	}{
		{"raise what shrinks", m.RaiseLimits, corev1.ResourceMemory, limited("2", "32Mi"), "67108864", "100000"},
		{"lower it", m.LowerLimits, corev1.ResourceMemory, limited("2", "32Mi"), "33554432", "100000"},
		{"raise what grows", m.RaiseLimits, corev1.ResourceCPU, limited("2", "32Mi"), "33554432", "200000"},
		{"lower what has grown", m.LowerLimits, corev1.ResourceCPU, limited("2", "32Mi"), "33554432", "200000"},
		{"take the limit away", m.RaiseLimits, corev1.ResourceCPU, limited("", "32Mi"), "33554432", "-1"},
	}
	for _, step := range steps {
		if err := step.change(t.Context(), before, step.pod, step.name); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		memory := strings.TrimSpace(read(t, controlFile(path, "memory.limit_in_bytes", "memory.max")))
		quota, _, _ := strings.Cut(strings.TrimSpace(read(t, controlFile(path, "cpu.cfs_quota_us", "cpu.max"))), " ")
		if cgroups.Mode() == cgroups.Unified && quota == "max" {
			quota = "-1"
		}
		if memory != step.wantMemory || quota != step.wantQuota {
			t.Errorf("%s: memory %s, quota %s, want %s, %s", step.what, memory, quota, step.wantMemory, step.wantQuota)
		}
	}
}

// A memory limit is not lowered below what is in use: the kernel would kill.
func TestMemoryLimitIsNotLoweredBelowUse(t *testing.T) {
	m := cgroupManager(t)
	before := withResources(corev1.ResourceRequirements{Limits: list("1", "64Mi")})
	prepare(t, m, before)
	limit := controlFile(m.Path(before.UID), "memory.limit_in_bytes", "memory.max")
	end := occupy(t, filepath.Dir(limit))
	defer end()
	after := withResources(corev1.ResourceRequirements{Limits: list("1", "1Mi")})
	err := m.LowerLimits(t.Context(), before, after, corev1.ResourceMemory)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot decrease memory limits: attempting to set pod memory limit (1048576) below current usage (") {
		t.Errorf("error %v", err)
	}
	if got := strings.TrimSpace(read(t, limit)); got != "67108864" {
		t.Errorf("memory limit %s", got)
	}
}

// A pod without a cgroup, of its own or any more, has no limits to change.
func TestResizeLimitsWithoutACgroup(t *testing.T) {
	pod := withResources(corev1.ResourceRequirements{Limits: list("1", "1Mi")})
	m := newManager(t, Config{})
	for _, change := range []func(ctx context.Context, before, pod *corev1.Pod, name corev1.ResourceName) error{m.RaiseLimits, m.LowerLimits} {
		if err := change(t.Context(), pod, pod, corev1.ResourceMemory); err != nil {
			t.Error(err)
		}
	}
}

func TestHigher(t *testing.T) {
	for _, tt := range []struct{ a, b, want int64 }{{1, 2, 2}, {2, 1, 2}, {withoutLimit, 5, withoutLimit}, {5, withoutLimit, withoutLimit}} {
		if got := higher(tt.a, tt.b); got != tt.want {
			t.Errorf("higher(%d, %d) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// Syncs that are carried out beside each other change the limits of one pod: none takes back what
// the other has set.
func TestLimitsThatChangeAtATimeAreAllSet(t *testing.T) {
	limited := func(cpu, memory string) *corev1.Pod {
		return withResources(corev1.ResourceRequirements{Limits: list(cpu, memory), Requests: list(cpu, memory)})
	}
	m := cgroupManager(t)
	before := limited("1", "64Mi")
	path := m.Path(before.UID)
	for range 20 {
		prepare(t, m, before)
		var changes errgroup.Group
		changes.Go(func() error {
			return m.RaiseLimits(t.Context(), before, limited("2", "64Mi"), corev1.ResourceCPU)
		})
		changes.Go(func() error {
			return m.RaiseLimits(t.Context(), before, limited("1", "96Mi"), corev1.ResourceMemory)
		})
		if err := changes.Wait(); err != nil {
			t.Fatal(err)
		}
		memory := strings.TrimSpace(read(t, controlFile(path, "memory.limit_in_bytes", "memory.max")))
		quota, _, _ := strings.Cut(strings.TrimSpace(read(t, controlFile(path, "cpu.cfs_quota_us", "cpu.max"))), " ")
		if memory != "100663296" || quota != "200000" {
			t.Fatalf("memory %s, quota %s, want 100663296, 200000", memory, quota)
		}
	}
}
