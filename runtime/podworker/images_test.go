// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A plan that starts containers says what is to be done about their images; one that
// kills first leaves that to the start, which asks by then unless it was pulled before.
func TestPlanKnowsImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		nw := workload("a")
		c := nw.Template.Spec.Containers[0]
		for name, policy := range map[string]corev1.PullPolicy{"absent": corev1.PullIfNotPresent, "never": corev1.PullNever, "always": corev1.PullAlways} {
			more := *c.DeepCopy()
			more.Name, more.Image, more.ImagePullPolicy = name, "absent:"+name, policy
			nw.Template.Spec.Containers = append(nw.Template.Spec.Containers, more)
		}
		pool := n.start(t)
		pool.Update(nw)
		n.settle(time.Second)
		got := map[string]plan.ImageUse{}
		for _, need := range n.synced[0].Actions.Images {
			got[need.Container] = need.Use
		}
		want := map[string]plan.ImageUse{
			c.Name: plan.ImagePresent, "absent": plan.ImagePull, "never": plan.ImageMissing, "always": plan.ImagePull,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("images of the first plan (-want +got):\n%s", diff)
		}

		nw = nw.DeepCopy()
		nw.Generation++
		nw.Template.Spec.Containers[0].Image = "image:2"
		pool.Update(nw)
		n.settle(time.Second)
		for _, r := range n.synced[1:] {
			if kills := r.Actions.ContainersToKill; len(kills) > 0 && r.Actions.Images != nil {
				t.Errorf("a plan with the kills %v has images %v", kills, r.Actions.Images)
			}
		}
	})
}
