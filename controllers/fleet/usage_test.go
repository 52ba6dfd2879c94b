// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A NodeWorkload uses quotas of its namespace until it is gone or its containers have ended for
// good: one that was evicted may still run.
func TestUsages(t *testing.T) {
	index := newIndex()
	nw := managertest.NodeWorkload("n1", "mw")
	uses := func(what, want string) {
		t.Helper()
		var got []string
		for key := range maps.Keys(index.Usages(nw.Namespace)) {
			got = append(got, key.Name)
		}
		if text := strings.Join(slices.Sorted(slices.Values(got)), " "); text != want {
			t.Errorf("%s: %q use the quotas, want %q", what, text, want)
		}
		if got := index.Usages("other"); len(got) > 0 {
			t.Errorf("%s: %v use those of another namespace", what, got)
		}
	}
	frees := []bool{}
	index.Listen(func(c Change) { frees = append(frees, c.FreesQuota()) })
	step := func(what, want string, freed bool) {
		t.Helper()
		uses(what, want)
		if len(frees) != 1 || frees[0] != freed {
			t.Errorf("%s: makes room %v, want %t", what, frees, freed)
		}
		frees = nil
	}
	index.Observe(nw)
	step("new", nw.Name, false)
	nw.Status.Phase = corev1.PodRunning
	index.Observe(nw)
	step("runs", nw.Name, false)
	nw.Generation++
	nw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	index.Observe(nw)
	step("has another template", nw.Name, true)
	nw.Status.Phase = corev1.PodFailed
	nw.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	index.Observe(nw)
	step("failed, and a container runs", nw.Name, false)
	nw.Status.ContainerStatuses = nil
	index.Observe(nw)
	step("has ended", "", true)
	index.Gone(nw)
	step("gone", "", false)
}

// What runs counts until what its NodeWorkload says runs in its place, of each resource the larger: a
// change may wait. A manager that has just started knows it too.
func TestWhatRunsCountsWhileAChangeWaits(t *testing.T) {
	requests := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}}
	}
	running := func(name, cpu, memory string) corev1.ContainerStatus {
		r := requests(cpu, memory)
		return corev1.ContainerStatus{Name: name, Resources: &r, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	nw := managertest.NodeWorkload("n1", "mw")
	nw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: requests("1", "10")}}
	nw.Spec.Template.Spec.InitContainers = nil
	waits := func(nw *v1alpha1.NodeWorkload) { nw.Status.ObservedGeneration, nw.Status.TemplateHash = 1, "earlier" }
	tests := map[string]struct {
		status func(*v1alpha1.NodeWorkload)
		want   Amount
	}{
		"what it says runs": {func(nw *v1alpha1.NodeWorkload) { runningNow(nw) }, Amount{1000, 10}},
		"nothing runs":      {func(*v1alpha1.NodeWorkload) {}, Amount{1000, 10}},
		"more CPU runs": {func(nw *v1alpha1.NodeWorkload) {
			nw.Status.ContainerStatuses = []corev1.ContainerStatus{running("app", "3", "5")}
		}, Amount{3000, 10}},
		"less runs": {func(nw *v1alpha1.NodeWorkload) {
			nw.Status.ContainerStatuses = []corev1.ContainerStatus{running("app", "0", "5")}
		}, Amount{1000, 10}},
		"containers of other names": {func(nw *v1alpha1.NodeWorkload) {
			nw.Status.ContainerStatuses = []corev1.ContainerStatus{running("a", "1", "9"), running("b", "1", "9")}
		}, Amount{2000, 18}},
		"a sidecar and a main one": {func(nw *v1alpha1.NodeWorkload) {
			nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses = []corev1.ContainerStatus{running("side", "1", "1")}, []corev1.ContainerStatus{running("app", "1", "1")}
		}, Amount{2000, 10}},
		"one that is about to start": {func(nw *v1alpha1.NodeWorkload) { nw.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}} }, Amount{1000, 10}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := nw.DeepCopy()
			waits(nw)
			tc.status(nw)
			s := ShareOf(nw, nil)
			used := s.Usage
			if want := quota.UsageOf(&corev1.PodSpec{Containers: []corev1.Container{{Resources: requests(fmt.Sprintf("%dm", tc.want.MilliCPU), fmt.Sprint(tc.want.Memory))}}}); s.Amount != tc.want || !used.Equal(want) {
				t.Errorf("%+v, want %+v; of quotas %v, want %v", s.Amount, tc.want, used, want)
			}
			if again := ShareOf(nw, s); again.Usage != used || again.Amount != s.Amount {
				t.Error("another look makes it another usage")
			}
			done := ShareOf(runningNow(nw.DeepCopy()), s)
			if done.Amount != (Amount{1000, 10}) || !done.Usage.Equal(ShareOf(runningNow(nw.DeepCopy()), nil).Usage) {
				t.Errorf("once the change is made: %+v", done.Amount)
			}
		})
	}
}
