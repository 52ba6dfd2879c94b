// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A template that was accepted once and is refused now keeps what runs:
// a probe on a named port that the container lacks.
func TestRefusedTemplateThatRunsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probed := func(nw *template.Workload) {
			nw.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}},
			}
		}
		n := newFakeNode(t)
		nw := workload("a", probed)
		pod := template.Pod(nw)
		if err := n.store.Save(&Checkpoint{Version: checkpointVersion, Identity: Identity{UID: "a", Namespace: nw.Namespace, Name: nw.Name}, State: Syncing, Pod: pod, Generation: nw.Generation}); err != nil {
			t.Fatal(err)
		}
		n.pods["a"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{
			ID: "c-1", Name: "c", SandboxID: "s", Image: "image:1", State: plan.ContainerRunning,
			Hash: plan.HashContainer(&pod.Spec.Containers[0]), StartedAt: time.Now(), CreatedAt: time.Now(),
		}}}
		p := n.start(t)
		p.Update(nw)
		n.settle(time.Minute)
		if len(n.synced) != 0 || len(n.killed) != 0 {
			t.Errorf("plans %+v, pod kills %+v, want none", n.synced, n.killed)
		}
		st := n.published("a")
		c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTemplateAccepted)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "livenessProbe.httpGet.port") || st.Phase != corev1.PodRunning {
			t.Errorf("condition %+v, phase %s", c, st.Phase)
		}
	})
}
