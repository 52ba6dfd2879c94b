// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

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

// What runs counts until what its NodeWorkload says runs in its place, of each resource the largest: a
// change may wait, and another may follow. What never ran does not count, nor what another object of the name had.
func TestWhatRunsCountsWhileAChangeWaits(t *testing.T) {
	of := func(cpu, memory string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
		}}}}
	}
	changed := func(nw *v1alpha1.NodeWorkload, cpu, memory string) *v1alpha1.NodeWorkload {
		nw = nw.DeepCopy()
		nw.Generation++
		nw.Spec.Template.Spec = of(cpu, memory)
		return nw
	}
	index := newIndex()
	expect := func(what string, nw *v1alpha1.NodeWorkload, cpu, memory string) {
		t.Helper()
		s, spec := index.Get(types.NamespacedName{Namespace: nw.Namespace, Name: nw.Name}), of(cpu, memory)
		if want := AmountIn(spec.Containers[0].Resources.Requests); s.Amount != want || !s.Usage.Equal(quota.UsageOf(&spec)) {
			t.Errorf("%s: %+v, want %+v; of quotas %+v", what, s.Amount, want, s.Usage)
		}
	}
	nw := runningNow(changed(managertest.NodeWorkload("n1", "mw"), "3", "5"))
	index.Observe(nw)
	expect("it runs", nw, "3", "5")
	nw = changed(nw, "1", "10")
	index.Observe(nw)
	expect("a change waits", nw, "3", "10")
	used := index.Get(types.NamespacedName{Namespace: nw.Namespace, Name: nw.Name}).Usage
	index.Reset(listAt("50", nw))
	if again := index.Get(types.NamespacedName{Namespace: nw.Namespace, Name: nw.Name}).Usage; !again.Equal(used) {
		t.Errorf("listed again: %+v, want %+v", again, used)
	}
	nw = changed(nw, "2", "1")
	index.Observe(nw)
	expect("another one waits", nw, "3", "10")
	nw = runningNow(nw.DeepCopy())
	index.Observe(nw)
	expect("that runs", nw, "2", "1")

	nw = changed(nw, "1", "1")
	nw.UID = "another"
	index.Observe(nw)
	expect("another object of the name", nw, "1", "1")
	nw = changed(nw, "5", "5")
	nw.Status = v1alpha1.NodeWorkloadStatus{}
	index.Observe(nw)
	nw = changed(nw, "2", "2")
	index.Observe(nw)
	expect("one that never ran", nw, "2", "2")
}
