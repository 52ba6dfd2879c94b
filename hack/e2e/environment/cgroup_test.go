// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
