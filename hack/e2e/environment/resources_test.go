// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// Resources become shares, quota, memory and OOM score, of the container and
// of the pod, in a cgroup of our own.
func TestResources(t *testing.T) {
	t.Parallel()
	const memory = 64 << 20
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: burstable, image: %[1]s, args: %[2]s, resources: {limits: {cpu: 250m, memory: 64Mi}, requests: {cpu: 100m, memory: 32Mi}}}
- {name: limited, image: %[1]s, args: %[2]s, resources: {limits: {cpu: 500m, memory: 32Mi}}}`, testImage, show("limits")))
	nw := w.AwaitReady()
	if nw.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("QoS class %s", nw.Status.QOSClass)
	}
	limits := "\n" + shown(t, w, "burstable", "limits")["limits"] + "\n"
	pod := cgroupOf(t, w, "burstable")
	if isCgroupV2() {
		contains(t, "limits", limits, "\ncpu.max 25000 100000\n")
		contains(t, "limits", limits, fmt.Sprintf("\nmemory.max %d\n", memory))
		readCgroup(t, filepath.Join(pod, "memory.max"), "100663296")
		readCgroup(t, filepath.Join(pod, "cpu.max"), "75000 100000")
	} else {
		contains(t, "limits", limits, "\ncpu.shares 102\n")
		contains(t, "limits", limits, "\ncpu.cfs_quota_us 25000\n")
		contains(t, "limits", limits, "\ncpu.cfs_period_us 100000\n")
		contains(t, "limits", limits, fmt.Sprintf("\nmemory.limit_in_bytes %d\n", memory))
		readCgroup(t, filepath.Join("memory", pod, "memory.limit_in_bytes"), "100663296")
		readCgroup(t, filepath.Join("cpu", pod, "cpu.cfs_quota_us"), "75000")
		readCgroup(t, filepath.Join("cpu", pod, "cpu.shares"), "614") // 100m and the other's limit
	}
	contains(t, "limits", limits, fmt.Sprintf("\noom_score_adj %d\n", 1000-1000*int64(32<<20)/nodeMemory(t)))
}

// The defaults of a LimitRange limit what runs, as they limit a Pod.
func TestLimitRange(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	defaults := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "defaults"}}
	defaults.Spec.Limits = []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")},
	}}
	if err := env.Kube.Create(t.Context(), defaults); err != nil {
		t.Fatal(err)
	}
	w.Apply(fmt.Sprintf("containers: [{name: c, image: %s, args: %s}]", testImage, show("limits")))
	w.AwaitReady()
	file := "memory.limit_in_bytes"
	if isCgroupV2() {
		file = "memory.max"
	}
	contains(t, "limits", "\n"+shown(t, w, "c", "limits")["limits"]+"\n", fmt.Sprintf("\n%s %d\n", file, 48<<20))
}

func TestBestEffort(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
containers: [{name: c, image: %s, args: %s}]`, testImage, show("limits")))
	if nw := w.AwaitReady(); nw.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("QoS class %s", nw.Status.QOSClass)
	}
	limits := "\n" + shown(t, w, "c", "limits")["limits"] + "\n"
	contains(t, "limits", limits, "\noom_score_adj 1000\n")
	if !isCgroupV2() {
		contains(t, "limits", limits, "\ncpu.shares 2\n")
		contains(t, "limits", limits, "\ncpu.cfs_quota_us -1\n")
	}
}

func isCgroupV2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// cgroupOf is the cgroup of the pod of a container, which has to be below our
// own parent.
func cgroupOf(t *testing.T, w *harness.Workload, container string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pidOf(t, w, container)))
	if err != nil {
		t.Fatal(err)
	}
	parent := env.Stack.CgroupParent() + "/"
	found := ""
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch path := fields[2]; {
		case strings.HasPrefix(path, parent):
			found = filepath.Dir(path)
		case fields[0] == "0" && !isCgroupV2():
			// The unified hierarchy has no controllers here.
		default:
			t.Errorf("hierarchy %s: the container is in %s, not below %s", fields[1], path, parent)
		}
	}
	if strings.Contains(found, "kubepods") || !strings.Contains(strings.ReplaceAll(found, "_", "-"), string(w.Node().UID)) {
		t.Errorf("cgroup of the pod: %s", found)
	}
	return found
}

func readCgroup(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path))
	if err != nil {
		t.Error(err)
	} else if got := strings.TrimSpace(string(data)); got != want {
		t.Errorf("%s: %s, want %s", path, got, want)
	}
}

// nodeMemory is in bytes.
func nodeMemory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes int64
	if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
