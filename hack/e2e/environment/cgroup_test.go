// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A pod whose processes were moved out of its cgroup, and the cgroup removed, is killed
// with its hook and grace period and runs in its cgroup again. Another pod stays.
func TestPodOutsideItsCgroup(t *testing.T) {
	t.Parallel()
	const template = `{terminationGracePeriodSeconds: 20, containers: [{name: c, image: "managedworkload.dev/testprogram:v1"}]}`
	w, other := env.Apply(t, template), env.Apply(t, template)
	w.AwaitReady()
	other.AwaitReady()
	path := cgroupOf(t, w, "c")
	if moveOut(t, path) == 0 {
		t.Fatalf("there is no cgroup %s", path)
	}
	// A change that restarts nothing has the shim look at both.
	change := func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = ptr.To(int64(25)) }
	w.Change(change)
	other.Change(change)
	kill := w.AwaitTrigger("c", v1alpha1.TriggerPodCgroupMissing)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || kill.Grace.Seconds != 25 || kill.Grace.Source != v1alpha1.GraceSourcePod {
		t.Errorf("kill %+v", kill)
	}
	w.Await("it runs again", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Restarts == 1 })
	w.AwaitReady()
	if again := cgroupOf(t, w, "c"); again != path {
		t.Errorf("it runs in %s, want %s", again, path)
	}
	w.AwaitEvent("Killing", "Stopping container c")
	w.AwaitEvent("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	if nw := other.AwaitReady(); nw.Status.Restarts != 0 || nw.Status.KillCount != 0 {
		t.Errorf("the other pod: %d restarts, %d kills", nw.Status.Restarts, nw.Status.KillCount)
	}
}

// A process that only the kernel knows is left in the cgroup of a workload that ends: it is
// killed, with a record of its own, and nothing of the workload is left on the node.
func TestProcessesLeftInThePodCgroup(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{restartPolicy: Never, containers: [{name: c, image: "managedworkload.dev/testprogram:v1", args: [serve, --exit-after=10s]}]}`)
	w.AwaitReady()
	path := cgroupOf(t, w, "c")
	left := exec.CommandContext(t.Context(), "sleep", "600")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	found := 0
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			procs := filepath.Join(root, path, "left", "cgroup.procs")
			if _, err := os.Stat(filepath.Join(root, path)); err != nil || strings.HasSuffix(root, "/cpuset") {
				continue // a new cgroup of cpuset takes no process before it has CPUs
			}
			if err := errors.Join(os.Mkdir(filepath.Dir(procs), 0o755), os.WriteFile(procs, []byte(strconv.Itoa(left.Process.Pid)), 0)); err != nil {
				t.Fatal(err)
			}
			found++
		}
	}
	if found == 0 {
		t.Fatalf("there is no cgroup %s", path)
	}
	kill := w.AwaitTrigger("", v1alpha1.TriggerProcessesLeft)
	if kill.Outcome != v1alpha1.KillOutcomeForced || !strings.Contains(kill.Message, fmt.Sprintf("%d (sleep)", left.Process.Pid)) {
		t.Errorf("kill %+v", kill)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process ended with %v", err)
	}
	w.AwaitEvent("Killed", kill.Summary)
}

// moveOut moves all processes of a cgroup to the root of their hierarchy, and removes
// the cgroup. It returns in how many hierarchies it was.
func moveOut(t *testing.T, path string) int {
	t.Helper()
	found := 0
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				continue
			}
			found++
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				err := emptyCgroup(root, filepath.Join(root, path))
				if err == nil {
					break
				}
				if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
		}
	}
	return found
}

func emptyCgroup(root, dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		processes, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		for process := range strings.FieldsSeq(string(processes)) {
			err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(process), 0)
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}
