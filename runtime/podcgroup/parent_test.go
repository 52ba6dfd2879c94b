// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	corev1 "k8s.io/api/core/v1"
)

// bounded is a manager of the parent of another one, as a later process has it.
func bounded(t *testing.T, of *Manager, file string, bounds Bounds) *Manager {
	t.Helper()
	return newManager(t, Config{Parent: of.parent, Driver: of.driver, Bounds: bounds, BoundsFile: file})
}

func keepBounds(t *testing.T, m *Manager, wantAgain bool) {
	t.Helper()
	if again, err := m.KeepBounds(t.Context()); err != nil || again != wantAgain {
		t.Fatalf("again %v, %v, want %v", again, err, wantAgain)
	}
}

// checkParent compares the limits of a cgroup.
func checkParent(t *testing.T, when, path string, cpu, memory, pids int64) {
	t.Helper()
	for kind, want := range [limitKinds]int64{cpu, memory, pids} {
		if got, err := readLimit(path, limitKind(kind)); err != nil || got != want {
			t.Errorf("%s %s: %d, %v, want %d", limitFiles[kind].v2, when, got, err, want)
		}
	}
}

func mustWrite(t *testing.T, path string, kind limitKind, value int64) {
	t.Helper()
	if err := writeLimit(path, kind, value); err != nil {
		t.Fatal(err)
	}
}

// The parent has the bounds, also after something else has changed them, and loses what
// was set for a flag with the flag: nothing else.
func TestCgroupBoundsLifecycle(t *testing.T) {
	base, file := cgroupManager(t), filepath.Join(t.TempDir(), "bounds")
	const none, gi = withoutLimit, int64(1) << 30
	path := base.pathOf("")
	m := bounded(t, base, file, testBounds("2", "4Gi", 500))
	keepBounds(t, m, true)
	checkParent(t, "at first", path, 200000, 4*gi, 500)

	mustWrite(t, path, cpuLimit, 100000)
	mustWrite(t, path, memoryLimit, none)
	mustWrite(t, path, pidsLimit, 900)
	prepare(t, m, withResources(corev1.ResourceRequirements{Limits: list("1", "64Mi")}))
	checkParent(t, "before a start", path, 200000, 4*gi, 500)

	m = bounded(t, base, file, testBounds("3", "0", 500))
	keepBounds(t, m, true)
	checkParent(t, "with other flags", path, 300000, none, 500)

	mustWrite(t, path, memoryLimit, 7*gi)
	mustWrite(t, path, pidsLimit, 700)
	keepBounds(t, bounded(t, base, file, Bounds{}), false)
	checkParent(t, "without flags", path, none, 7*gi, 700)
	keepBounds(t, bounded(t, base, file, Bounds{}), false)
	checkParent(t, "without flags, again", path, none, 7*gi, 700)

	keepBounds(t, bounded(t, base, file, testBounds("0", "4Gi", 0)), true)
	checkParent(t, "beside an administrator's limits", path, none, 4*gi, 700)
	keepBounds(t, bounded(t, base, file, Bounds{}), false)
	checkParent(t, "as an administrator left them", path, none, 7*gi, 700)
}

// A parent that is gone is made again with its bounds; one that is not the parent any
// more loses them.
func TestCgroupBoundsOfAnotherParent(t *testing.T) {
	base, file := cgroupManager(t), filepath.Join(t.TempDir(), "bounds")
	old, now := bounded(t, base, file, Bounds{Pids: 500}), bounded(t, base, file, Bounds{Pids: 600})
	now.parent += "/below"
	keepBounds(t, old, true)
	removeParent(t, base)
	keepBounds(t, old, true)
	checkParent(t, "made again", old.pathOf(""), withoutLimit, withoutLimit, 500)
	keepBounds(t, now, true)
	checkParent(t, "of the former parent", old.pathOf(""), withoutLimit, withoutLimit, withoutLimit)
	checkParent(t, "of the parent", now.pathOf(""), withoutLimit, withoutLimit, 600)
	removeParent(t, base)
	keepBounds(t, bounded(t, base, file, Bounds{}), false)
	if got := strings.TrimSpace(read(t, file)); got != "{}" {
		t.Errorf("%s is remembered of a cgroup that is gone", got)
	}
}

func removeParent(t *testing.T, m *Manager) {
	t.Helper()
	dirs, err := cgroupDirs(m.pathOf(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if err := removeCgroupDir(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
}

// A bound below what is in use is set when it can be, and nothing starts until then.
func TestCgroupBoundBelowUseWaits(t *testing.T) {
	base := cgroupManager(t)
	pod := withResources(corev1.ResourceRequirements{})
	prepare(t, base, pod)
	for kind, bounds := range map[limitKind]Bounds{memoryLimit: testBounds("0", "1Mi", 0), pidsLimit: {Pids: 1}} {
		end := occupy(t, filepath.Dir(controlFile(base.Path(pod.UID), limitFiles[kind].v1, limitFiles[kind].v2)))
		m := bounded(t, base, "", bounds)
		err := m.Ensure(t.Context(), pod)
		if !errors.Is(err, errNotInForce) || !strings.Contains(err.Error(), bounds.flag(kind)) {
			t.Errorf("%s: %v", limitFiles[kind].v2, err)
		}
		if got, err := readLimit(m.pathOf(""), kind); err != nil || got != withoutLimit {
			t.Errorf("%s %d, %v while more is in use", limitFiles[kind].v2, got, err)
		}
		end()
		if use, err := inUse(m.pathOf(""), kind); kind == memoryLimit && use > 1<<20 {
			t.Logf("the kernel still counts %d bytes, %v", use, err)
			continue
		}
		prepare(t, m, pod)
		if got, err := readLimit(m.pathOf(""), kind); err != nil || got != bounds.limits(DriverFS)[kind] {
			t.Errorf("%s %d, %v when less is in use", limitFiles[kind].v2, got, err)
		}
		keepBounds(t, m, true)
		mustWrite(t, m.pathOf(""), kind, withoutLimit)
	}
}

// occupy has two processes in a cgroup, one with 16 MB of memory.
func occupy(t *testing.T, dir string) (end func()) {
	t.Helper()
	return inCgroup(t, dir, `x=$(head -c 16000000 /dev/zero | tr '\0' x)`)
}

// inCgroup runs a script in a cgroup, which has come to its end, and has two processes there.
func inCgroup(t *testing.T, dir, script string) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo $$ > "$0"/cgroup.procs; `+script+`; (echo ready; read wait); exit 0`, dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = in.Close()
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() < 0 {
			t.Errorf("it was killed: %v", cmd.ProcessState)
		}
	}
}

// A CPU limit of a workload that runs may be above the bound: version 1 takes the bound
// later, and other workloads start meanwhile.
func TestCgroupBoundBelowAQuota(t *testing.T) {
	base := cgroupManager(t)
	prepare(t, base, withResources(corev1.ResourceRequirements{Limits: list("3", "64Mi")}))
	m := bounded(t, base, "", testBounds("2", "0", 0))
	_, err := m.KeepBounds(t.Context())
	if v1 := cgroups.Mode() != cgroups.Unified; v1 != (err != nil) || v1 && !strings.Contains(err.Error(), "--max-cpu=2") {
		t.Errorf("%v", err)
	}
	other := withResources(corev1.ResourceRequirements{Limits: list("1", "64Mi")})
	other.UID = "other"
	prepare(t, m, other)
	if err := m.Remove(t.Context(), testPod(nil).UID); err != nil {
		t.Fatal(err)
	}
	// The kernel forgets a cgroup a moment after its removal.
	for wait := time.Millisecond; ; wait *= 2 {
		if _, err = m.KeepBounds(t.Context()); err == nil || wait > 10*time.Second {
			break
		}
		time.Sleep(wait)
	}
	checkParent(t, "when it is gone", m.pathOf(""), 200000, withoutLimit, withoutLimit)
}

// What was remembered and cannot be read is said, and nothing is taken back.
func TestDamagedClaims(t *testing.T) {
	for name, content := range map[string]string{"no JSON": "{", "null": "null", "nothing of a cgroup": `{"/a":null,"/b":{}}`, "another type": "[]"} {
		file := filepath.Join(t.TempDir(), "bounds")
		write(t, file, content)
		got, err := loadClaims(file)
		if got == nil || len(got) > 0 || (err != nil) != (content == "{" || content == "[]") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if again, _ := newManager(t, Config{Parent: "/mwtest", BoundsFile: file}).KeepBounds(t.Context()); again {
			t.Errorf("%s: there is something to look after", name)
		}
	}
}

// A bound counts although it cannot be remembered.
func TestCgroupBoundThatCannotBeRemembered(t *testing.T) {
	base := cgroupManager(t)
	m := bounded(t, base, filepath.Join(t.TempDir(), "missing", "bounds"), Bounds{Pids: 500})
	if again, err := m.KeepBounds(t.Context()); err == nil || errors.Is(err, errNotInForce) || !again {
		t.Errorf("again %v, %v", again, err)
	}
	checkParent(t, "all the same", m.pathOf(""), withoutLimit, withoutLimit, 500)
}

// A pod has the limit of processes that is configured, and loses it with the flag.
func TestCgroupPodPids(t *testing.T) {
	base, pod := cgroupManager(t), withResources(corev1.ResourceRequirements{})
	limited := newManager(t, Config{Parent: base.parent, PodPids: 70})
	for _, tt := range []struct {
		m    *Manager
		want string
	}{{base, "max"}, {limited, "70"}, {base, "max"}} {
		base.forget(pod.UID)
		prepare(t, tt.m, pod)
		if got := strings.TrimSpace(read(t, controlFile(base.Path(pod.UID), "pids.max", "pids.max"))); got != tt.want {
			t.Errorf("pids.max %s, want %s", got, tt.want)
		}
		limited.forget(pod.UID)
	}
}

// The bounds of a slice are its properties too, and stay when systemd is reloaded.
func TestSliceBounds(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getuid() != 0 || cgroups.Mode() != cgroups.Unified {
		t.Skip("needs root, systemd and cgroup v2")
	}
	parent := "mwbounds_" + strconv.Itoa(os.Getpid()) + ".slice"
	base := newManager(t, Config{Parent: parent, Driver: DriverSystemd})
	t.Cleanup(func() { stopUnit(t, parent) })
	path, file := base.pathOf(""), filepath.Join(t.TempDir(), "bounds")
	keepBounds(t, bounded(t, base, file, testBounds("125m", "512Mi", 300)), true)
	systemctl(t, "daemon-reload")
	checkParent(t, "after a reload", path, 13000, 512<<20, 300)
	pids := newManager(t, Config{Parent: parent, Driver: DriverSystemd, PodPids: 70})
	prepare(t, pids, testPod(nil))
	systemctl(t, "daemon-reload")
	if got := strings.TrimSpace(read(t, controlFile(pids.Path(testPod(nil).UID), "", "pids.max"))); got != "70" {
		t.Errorf("pids.max of a pod %s", got)
	}
	if err := pids.Remove(t.Context(), testPod(nil).UID); err != nil {
		t.Error(err)
	}
	keepBounds(t, bounded(t, base, file, Bounds{}), false)
	systemctl(t, "daemon-reload")
	checkParent(t, "without flags", path, withoutLimit, withoutLimit, withoutLimit)
}
