// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The checkpoint of an earlier version of the shim is read: what runs continues to run,
// the kill under way is finished, and the one that had ended is announced once.
func TestUpgradeRestartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uid = "3f0e7a52-6c0e-4b6e-9a51-1f6a7f3d9c11"
		data, err := os.ReadFile("testdata/checkpoint-version1.json")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, uid+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		n := newFakeNode(t)
		if n.store, err = NewCheckpoints(dir, logr.Discard()); err != nil {
			t.Fatal(err)
		}
		pod := template.Pod(workload(uid, func(nw *v1alpha1.NodeWorkload) { nw.Name = "web" }))
		running := func(name string) plan.ContainerStatus {
			c := pod.Spec.Containers[0]
			c.Name = name
			return plan.ContainerStatus{
				ID: name + "-1", Name: name, SandboxID: "s", Image: "image:1", State: plan.ContainerRunning,
				Hash: plan.HashContainer(&c), StartedAt: time.Now(), CreatedAt: time.Now(),
			}
		}
		n.pods[uid] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{running("c"), running("d")}}
		p := n.start(t)
		n.settle(time.Minute)

		known := p.Known()
		if len(known) != 1 || known[0].Name != "web" || known[0].ClusterID != "cluster" || *known[0].Pod.Spec.TerminationGracePeriodSeconds != 45 {
			t.Fatalf("known %+v", known)
		}
		if len(n.synced) != 0 || len(n.killed) != 0 {
			t.Errorf("plans %+v, pod kills %+v, want none", n.synced, n.killed)
		}
		if len(n.resumed) != 1 || n.resumed[0].Record.ID != "kill-2" || n.resumed[0].Record.Phase != v1alpha1.KillPhasePreStop {
			t.Errorf("resumed %+v, want the kill under way", n.resumed)
		}
		events := slices.DeleteFunc(n.log(), func(c string) bool { return !strings.HasPrefix(c, "event Killed") })
		if len(events) != 2 || !strings.Contains(events[0], "killed by force") {
			t.Errorf("events %q, want that of each kill, the older first", events)
		}
		st := n.published(uid)
		if st.KillCount != 2 || st.TemplateHash != "837564561977c22e" || st.Ready != "2/2" {
			t.Errorf("kill count %d, template hash %q, ready %q", st.KillCount, st.TemplateHash, st.Ready)
		}
	})
}

// A template that an earlier version accepted and this one refuses keeps what runs:
// a probe on a named port that the container lacks.
func TestUpgradeKeepsARefusedTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probed := func(nw *v1alpha1.NodeWorkload) {
			nw.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{
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
