// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/cgroups/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

// The pod's cgroup is gone: that is said while containers run, they are kept unless
// all are proved to run elsewhere, and the next start makes it again.
func TestVanishedCgroup(t *testing.T) {
	known := false
	made := ""
	pod := testPod(nil)
	m := withCgroups(t, pod, func(context.Context, string) (int, string, error) {
		if !known {
			return 0, "", errors.New("not known")
		}
		return os.Getpid(), made, nil // which is in no pod's cgroup
	})
	made = m.CgroupParent(pod) + "/c1"
	running := &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "c1", State: plan.ContainerRunning}}}
	doubtful := &plan.PodStatus{Containers: append([]plan.ContainerStatus{{ID: "c2", State: plan.ContainerUnknown}}, running.Containers...)}
	exited := &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "c1", State: plan.ContainerExited}}}
	check := func(when string, observed *plan.PodStatus, wantReason string, wantOutside bool) {
		t.Helper()
		reason := ""
		for _, c := range m.Conditions(t.Context(), pod, observed) {
			if reason = c.Reason; c.Type != v1alpha1.ConditionPodCgroupMissing || c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, m.CgroupParent(pod)) {
				t.Errorf("%s: condition %+v", when, c)
			}
		}
		if outside := m.OutsideCgroup(t.Context(), pod, observed); reason != wantReason || outside != wantOutside {
			t.Errorf("%s: reason %q, outside %v, want %q, %v", when, reason, outside, wantReason, wantOutside)
		}
	}
	prepare(t, m, pod)
	known = true
	check("it is there", running, "", false)
	if err := m.cgroups.Remove(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	check("it is gone, and nothing runs", exited, "", false)
	check("it is gone", running, v1alpha1.ReasonContainersOutsideCgroup, true)
	check("it is gone, and one container's state is not known", doubtful, v1alpha1.ReasonContainersOutsideCgroup, false)
	known = false
	check("it is gone, and nothing is proved", running, v1alpha1.ReasonCgroupMissing, false)
	prepare(t, m, pod)
	check("it was made again, and nothing is proved", running, "", false)
	known = true
	check("it was made again", running, v1alpha1.ReasonContainersOutsideCgroup, true)
	fresh := &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: "c3", State: plan.ContainerRunning}}}
	check("it was made again, and another container runs", fresh, "", false)
	check("nothing is left of before", running, "", false)
}

// What cannot be made ready has the reason of the kubelet's event.
func TestPrepareErrors(t *testing.T) {
	reason := func(t *testing.T, err error) string {
		t.Helper()
		var named interface{ EventReason() string }
		if !errors.As(err, &named) {
			t.Fatalf("error %v has no reason", err)
		}
		return named.EventReason()
	}
	t.Run("cgroup", func(t *testing.T) {
		if cgroups.Mode() == cgroups.Unavailable {
			t.Skip("needs cgroups")
		}
		// No cgroup can have a line break in its name.
		m := managerWith(t, podcgroup.Config{Parent: "/mwtest\n"}, nil)
		err := m.Prepare(t.Context(), testPod(nil))
		if got := reason(t, err); got != "FailedCreatePodContainer" || !strings.HasPrefix(err.Error(), "unable to ensure pod container exists: ") {
			t.Errorf("%s: %v", got, err)
		}
	})
	t.Run("volume", func(t *testing.T) {
		err := newManager(t, nil).Prepare(t.Context(), withVolumes(hostPathVolume("v", "/dev/null", corev1.HostPathDirectory)))
		if got := reason(t, err); got != "FailedMount" || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "v" : `) {
			t.Errorf("%s: %v", got, err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		err := newManager(t, nil).Prepare(t.Context(), testPod(func(p *corev1.Pod) { p.UID = ".." }))
		if got := reason(t, err); got != "FailedMakePodDataDirectories" || !strings.HasPrefix(err.Error(), "error making pod data directories: ") {
			t.Errorf("%s: %v", got, err)
		}
	})
}

// A pod that ended keeps its logs and termination messages, and nothing else.
func TestRelease(t *testing.T) {
	m := newManager(t, nil)
	pod := withVolumes(emptyDirVolume("disk", "", ""))
	if os.Getuid() == 0 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, emptyDirVolume("mem", corev1.StorageMediumMemory, "1Mi"))
	}
	asRoot(t, m, pod)
	pod.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	prepare(t, m, pod)
	options, err := m.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(m.LogDirectory(pod), options.LogPath)
	write(t, log, "x")
	for range 2 { // the second time there is nothing
		if err := m.Release(t.Context(), IdentityOf(pod)); err != nil {
			t.Fatal(err)
		}
		if exists(emptyDir(m, pod, "disk")) || exists(emptyDir(m, pod, "mem")) {
			t.Error("volumes are left")
		}
		if !exists(log) || !exists(options.TerminationLog) {
			t.Error("logs or termination messages are gone")
		}
	}
	if err := m.Release(t.Context(), Identity{UID: ".."}); err == nil {
		t.Error("a UID that is a path is accepted")
	}
}
