// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func cpu(limit string) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
}

// resizing makes the node's executor resize, or fail to.
func resizing(n *fakeNode, fail *string) {
	n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.run(r)
		for i := range n.pods[r.Pod.UID].containers {
			if c := &n.pods[r.Pod.UID].containers[i]; c.Recorded.Resources == nil {
				given := plan.ResourcesOf(&r.Pod.Spec.Containers[0].Resources)
				c.Recorded.Resources = &given
			}
		}
		if len(r.Actions.CPUToUpdate) > 0 && *fail != "" {
			return plan.SyncOutcome{Err: context.DeadlineExceeded, ResizeError: *fail}
		}
		for _, u := range r.Actions.CPUToUpdate {
			n.note("resize %s to %d", u.Name, u.Desired.CPULimit)
			r.Actuated[u.ID] = u.Desired
		}
		return plan.SyncOutcome{}
	}
}

// Resources change without a restart; that is reported, and known to the shim that
// comes after.
func TestResizeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := ""
		n := newFakeNode(t)
		resizing(n, &fail)
		p := n.start(t)
		p.Update(workload("a", cpu("100m")))
		n.settle(time.Second)
		before := n.published("a")
		p.Update(workload("a", cpu("200m"), generation(2)))
		n.settle(time.Second)
		after := n.published("a")
		if !n.did("resize c to 200") || after.ContainerStatuses[0].ContainerID != before.ContainerStatuses[0].ContainerID || after.KillCount != 0 {
			t.Errorf("calls %q, container %s then %s", n.log(), before.ContainerStatuses[0].ContainerID, after.ContainerStatuses[0].ContainerID)
		}
		if after.TemplateHash == before.TemplateHash || meta.FindStatusCondition(after.Conditions, string(corev1.PodResizeInProgress)) != nil {
			t.Errorf("template %s then %s, conditions %+v", before.TemplateHash, after.TemplateHash, after.Conditions)
		}
		const resources = `{"containers":[{"name":"c","resources":{"limits":{"cpu":"200m"},"requests":{"cpu":"200m"}}}],"generation":2}`
		for _, event := range []string{"event ResizeStarted: Pod resize started: " + resources, "event ResizeCompleted: Pod resize completed: " + resources} {
			if !n.did(event) {
				t.Errorf("calls %q, want %s", n.log(), event)
			}
		}

		m := restarted(t, n)
		resizing(m, &fail)
		m.start(t)
		m.settle(time.Minute)
		if len(m.synced) != 0 {
			t.Errorf("the shim that comes after carries out %+v", m.synced[0].Actions)
		}
	})
}

// A resize that fails is tried again, and reported until it succeeds.
func TestResizeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := "cannot decrease memory limits"
		n := newFakeNode(t)
		resizing(n, &fail)
		p := n.start(t)
		p.Update(workload("a", cpu("100m")))
		n.settle(time.Second)
		hash := n.published("a").TemplateHash
		p.Update(workload("a", cpu("200m"), generation(2)))
		n.settle(time.Minute)
		st := n.published("a")
		c := meta.FindStatusCondition(st.Conditions, string(corev1.PodResizeInProgress))
		if c == nil || c.Reason != corev1.PodReasonError || c.Message != fail || st.TemplateHash != hash {
			t.Errorf("condition %+v, template %s then %s", c, hash, st.TemplateHash)
		}
		errors := slices.DeleteFunc(n.log(), func(call string) bool { return !strings.HasPrefix(call, "event ResizeError") })
		if len(errors) != 1 || !strings.HasSuffix(errors[0], `"generation":2,"error":"cannot decrease memory limits"}`) {
			t.Errorf("events %q, want one with the error", errors)
		}
		n.mu.Lock()
		fail = ""
		n.mu.Unlock()
		n.settle(time.Minute)
		if st := n.published("a"); !n.did("resize c to 200") || meta.FindStatusCondition(st.Conditions, string(corev1.PodResizeInProgress)) != nil || st.TemplateHash == hash {
			t.Errorf("calls %q, conditions %+v", n.log(), st.Conditions)
		}
	})
}
