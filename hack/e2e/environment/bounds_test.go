// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// The bounds of the node are limits of the cgroups, which come back when they were
// changed. A template above them is refused, and what runs stays.
func TestNodeBounds(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, fmt.Sprintf(`
containers: [{name: c, image: %s, args: %s, resources: {limits: {memory: 64Mi}}}]`, testImage, show("limits")))
	before := w.AwaitReady()
	parent, pod := env.Stack.CgroupParent(), cgroupOf(t, w, "c")
	quota, want := filepath.Join("cpu", parent, "cpu.cfs_quota_us"), "100000000"
	memory := filepath.Join("memory", parent, "memory.limit_in_bytes")
	pids, podPids := filepath.Join("pids", parent, "pids.max"), filepath.Join("pids", pod, "pids.max")
	if isCgroupV2() {
		quota, want = filepath.Join(parent, "cpu.max"), "100000000 100000"
		memory = filepath.Join(parent, "memory.max")
		pids, podPids = filepath.Join(parent, "pids.max"), filepath.Join(pod, "pids.max")
	}
	readCgroup(t, quota, want)
	readCgroup(t, memory, strconv.Itoa(maxMemory))
	readCgroup(t, podPids, strconv.Itoa(podMaxPids))
	readCgroup(t, pids, strconv.Itoa(maxPids))
	awaitPutBack(t, pids, strconv.Itoa(maxPids))

	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ti")}
	})
	after := w.Await("its template is refused", func(nw *v1alpha1.NodeWorkload) bool {
		return meta.IsStatusConditionFalse(nw.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
	})
	c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionTemplateAccepted)
	contains(t, "condition", c.Reason+": "+c.Message,
		`AboveNodeBounds: spec.template.spec.containers[0].resources.limits[memory]: Invalid value: "1Ti": above this node's --max-memory=512Gi`)
	if was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; is.ContainerID != was.ContainerID || is.State.Running == nil {
		t.Errorf("container %+v, was %s", is, was.ContainerID)
	}
}

// awaitPutBack changes a limit and waits for the one that was there.
func awaitPutBack(t *testing.T, path, want string) {
	t.Helper()
	path = filepath.Join("/sys/fs/cgroup", path)
	if err := os.WriteFile(path, []byte("max"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	for {
		content, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(content)) == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %s, %v, want %s", path, content, err, want)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
