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
