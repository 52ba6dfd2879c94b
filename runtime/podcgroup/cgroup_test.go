// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

func TestPath(t *testing.T) {
	tests := map[string]struct{ parent, driver, want string }{
		"cgroupfs":         {"/managedworkload", DriverFS, "/managedworkload/mw0f1c-22"},
		"relative":         {"managedworkload", DriverFS, "/managedworkload/mw0f1c-22"},
		"systemd":          {"/managedworkload", DriverSystemd, "/managedworkload.slice/managedworkload-mw0f1c_22.slice"},
		"systemd, nested":  {"/a-b/c", DriverSystemd, "/a_b.slice/a_b-c.slice/a_b-c-mw0f1c_22.slice"},
		"systemd, a slice": {"/managedworkload.slice", DriverSystemd, "/managedworkload.slice/managedworkload-mw0f1c_22.slice"},
		"none":             {"", DriverFS, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, Config{Parent: tt.parent})
			if err := m.SetDriver(tt.driver); err != nil {
				t.Fatal(err)
			}
			if got := m.Path("0f1c-22"); got != tt.want {
				t.Errorf("cgroup %q, want %q", got, tt.want)
			}
		})
	}
	if err := newManager(t, Config{}).SetDriver("auto"); err == nil {
		t.Error("an unknown driver is accepted")
	}
}

func list(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func withResources(all ...corev1.ResourceRequirements) *corev1.Pod {
	return testPod(func(p *corev1.Pod) {
		p.Spec.Containers = nil
		for i, r := range all {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c" + strconv.Itoa(i), Resources: r})
		}
	})
}

func TestPodLimits(t *testing.T) {
	full := corev1.ResourceRequirements{Requests: list("500m", "64Mi"), Limits: list("500m", "64Mi")}
	tests := map[string]struct {
		pod     *corev1.Pod
		want    limits
		wantQoS corev1.PodQOSClass
	}{
		"nothing asked for":           {withResources(corev1.ResourceRequirements{}), limits{2, -1, -1, -1}, corev1.PodQOSBestEffort},
		"guaranteed":                  {withResources(full, full), limits{1024, 100000, 128 << 20, -1}, corev1.PodQOSGuaranteed},
		"limits are requests":         {withResources(corev1.ResourceRequirements{Limits: list("1", "64Mi"), Requests: list("1", "64Mi")}), limits{1024, 100000, 64 << 20, -1}, corev1.PodQOSGuaranteed},
		"requests only":               {withResources(corev1.ResourceRequirements{Requests: list("250m", "")}), limits{256, -1, -1, -1}, corev1.PodQOSBurstable},
		"a container without limits":  {withResources(full, corev1.ResourceRequirements{}), limits{512, -1, -1, -1}, corev1.PodQOSBurstable},
		"a container without memory":  {withResources(full, corev1.ResourceRequirements{Limits: list("500m", "")}), limits{512, 100000, -1, -1}, corev1.PodQOSBurstable},
		"a quota has a lower bound":   {withResources(corev1.ResourceRequirements{Limits: list("1m", "")}), limits{2, 1000, -1, -1}, corev1.PodQOSBurstable},
		"a weight has an upper bound": {withResources(corev1.ResourceRequirements{Requests: list("1000", "")}), limits{262144, -1, -1, -1}, corev1.PodQOSBurstable},
		"an init container needs more": {testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = full
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("1", "128Mi"), Limits: list("1", "128Mi")}}}
		}), limits{1024, 100000, 128 << 20, -1}, corev1.PodQOSGuaranteed},
		"overhead of the runtime class": {testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = full
			p.Spec.Overhead = list("500m", "64Mi")
		}), limits{1024, 100000, 128 << 20, -1}, corev1.PodQOSGuaranteed},
		"overhead where nothing is limited": {testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("500m", "")}
			p.Spec.Overhead = list("500m", "64Mi")
		}), limits{1024, -1, -1, -1}, corev1.PodQOSBurstable},
		"limits of the pod": {testPod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1", ""), Limits: list("2", "1Gi")}
		}), limits{1024, 200000, 1 << 30, -1}, corev1.PodQOSBurstable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, podLimits(tt.pod), cmp.AllowUnexported(limits{})); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if got := podspec.QOSClass(tt.pod); got != tt.wantQoS {
				t.Errorf("class %s, want %s", got, tt.wantQoS)
			}
		})
	}
}

func TestResourcesV2(t *testing.T) {
	values := func(l limits) (string, int64) { r := resourcesV2(l); return string(r.CPU.Max), *r.Memory.Max }
	if cpu, memory := values(limits{1024, 50000, 4096, -1}); cpu != "50000 100000" || memory != 4096 {
		t.Errorf("limited: %q, %d", cpu, memory)
	}
	if cpu, memory := values(limits{2, -1, -1, -1}); cpu != "max 100000" || memory != math.MaxInt64 {
		t.Errorf("unlimited: %q, %d", cpu, memory)
	}
}

// cgroupManager keeps cgroups of its own, which are removed after the test.
func cgroupManager(t *testing.T) *Manager {
	t.Helper()
	if os.Getuid() != 0 || cgroups.Mode() == cgroups.Unavailable {
		t.Skip("needs root and cgroups")
	}
	parent := "/mwtest-" + strconv.Itoa(os.Getpid())
	m := newManager(t, Config{Parent: parent})
	t.Cleanup(func() {
		dirs, err := cgroupDirs(parent)
		if err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			if err := removeCgroupDir(context.Background(), dir); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
	return m
}

func TestCgroupLifecycle(t *testing.T) {
	m := cgroupManager(t)
	limited := func(memory string) *corev1.Pod {
		return withResources(corev1.ResourceRequirements{Requests: list("500m", ""), Limits: list("1", memory)})
	}
	pod := limited("64Mi")
	prepare(t, m, pod)
	path := m.Path(pod.UID)
	memory := controlFile(path, "memory.limit_in_bytes", "memory.max")
	if got := strings.TrimSpace(read(t, memory)); got != "67108864" {
		t.Errorf("memory limit %s", got)
	}
	if cgroups.Mode() != cgroups.Unified {
		for file, want := range map[string]string{"cpu.shares": "512", "cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"} {
			if got := strings.TrimSpace(read(t, controlFile(path, file, ""))); got != want {
				t.Errorf("%s is %s, want %s", file, got, want)
			}
		}
		if strings.TrimSpace(read(t, controlFile(path, "cpuset.cpus", ""))) == "" {
			t.Error("no CPUs for the containers")
		}
	}
	prepare(t, m, limited("128Mi"))
	if got := strings.TrimSpace(read(t, memory)); got != "134217728" {
		t.Errorf("memory limit %s after a change", got)
	}
	prepare(t, m, withResources(corev1.ResourceRequirements{}))
	if got, err := strconv.ParseInt(strings.TrimSpace(read(t, memory)), 10, 64); err == nil && got < 1<<60 {
		t.Errorf("memory limit %d after it was taken away", got)
	}
	// What a runtime left behind goes too.
	unified := filepath.Join(cgroupMount, "unified", path)
	if cgroups.Mode() == cgroups.Hybrid {
		t.Cleanup(func() { _ = os.Remove(filepath.Dir(unified)) })
		if err := os.MkdirAll(filepath.Join(unified, "left"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(memory), "left"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Remove(t.Context(), pod.UID); err != nil {
			t.Fatal(err)
		}
		if cgroupExists(path) || exists(filepath.Dir(memory)) || exists(unified) {
			t.Error("the cgroup is still there")
		}
	}
}

func TestCgroupIsMadeAgain(t *testing.T) {
	m, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
	prepare(t, m, pod)
	if err := m.Remove(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, pod)
	if !cgroupExists(m.Path(pod.UID)) {
		t.Error("a cgroup that was removed is not made again")
	}
}

func TestBusyCgroupIsAnError(t *testing.T) {
	m, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
	prepare(t, m, pod)
	sleeper := exec.CommandContext(t.Context(), "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}
	t.Cleanup(end)
	procs := controlFile(m.Path(pod.UID), "memory.limit_in_bytes", "memory.max")
	procs = filepath.Join(filepath.Dir(procs), "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(sleeper.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := m.Remove(t.Context(), pod.UID); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("gave up after %v only", took)
	}
	if err := sleeper.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the process was killed: %v", err)
	}
	end()
	if err := m.Remove(t.Context(), pod.UID); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestMemoryLimitBelowUseWaits(t *testing.T) {
	m := cgroupManager(t)
	pod := withResources(corev1.ResourceRequirements{Limits: list("1", "64Mi")})
	prepare(t, m, pod)
	procs := filepath.Join(filepath.Dir(controlFile(m.Path(pod.UID), "memory.limit_in_bytes", "memory.max")), "cgroup.procs")
	// The shell moves itself and only then takes memory.
	script := `echo $$ > "$0"; x=$(head -c 16000000 /dev/zero | tr '\0' x); echo ready; read wait`
	hog := exec.CommandContext(t.Context(), "sh", "-c", script, procs)
	in, err := hog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hog.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	small := withResources(corev1.ResourceRequirements{Limits: list("1", "1Mi")})
	prepare(t, m, small)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = hog.Wait() // read at the end of input is a failure
	if hog.ProcessState.ExitCode() < 0 {
		t.Errorf("the new limit killed what ran: %v", hog.ProcessState)
	}
	limit := controlFile(m.Path(pod.UID), "memory.limit_in_bytes", "memory.max")
	if use := memoryUse(m.Path(pod.UID)); use > 1<<20 {
		t.Skipf("the kernel still counts %d bytes", use)
	}
	prepare(t, m, small)
	if got := strings.TrimSpace(read(t, limit)); got != "1048576" {
		t.Errorf("memory limit %s after the use was over", got)
	}
}

func TestPopulated(t *testing.T) {
	tests := map[string]struct {
		events string
		want   bool
	}{
		"empty":       {"populated 0\nfrozen 0\n", false},
		"processes":   {"populated 1\nfrozen 0\n", true},
		"other order": {"frozen 0\npopulated 0\n", false},
		"not there":   {"", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.events != "" {
				write(t, filepath.Join(dir, "cgroup.events"), tt.events)
			}
			if got, err := populated(dir); err != nil || got != tt.want {
				t.Errorf("populated %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestResourcesV2AreWritten: each value must be one that the kernel takes.
func TestResourcesV2AreWritten(t *testing.T) {
	want := []string{"cpu", "memory", "pids"}
	if diff := cmp.Diff(want, resourcesV2(limits{2, -1, -1, -1}).EnabledControllers()); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	if got := resourcesV2(limits{2, -1, -1, -1}).Pids.Max; got != -1 {
		t.Errorf("pids.max %d, want -1, which is written as max", got)
	}
}
