// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// thereAndBack goes back to the older version and upgrades again. What runs stays, whichever
// version created it, also while the newer programs have the older configuration.
func thereAndBack(t *testing.T, workloads map[string]*harness.Workload, all spread) {
	t.Helper()
	underWay := killsUnderWay()
	applyAll(t, underWay)
	paused, waits := applyPaused(t), applyWaiting(t)
	for _, k := range underWay {
		k.w.AwaitReady()
	}
	before, onAll := takeAll(t, workloads), all.take(t)
	held := takeAll(t, map[string]*harness.Workload{"paused": paused, "waiting": waits})
	goBack(t, func() { beginAll(underWay) })
	wantKept(t, workloads, before, 8)
	all.wantKept(t, onAll, 8)
	wantStatuses(workloads)
	for _, k := range underWay {
		k.finished(t, k.w)
	}
	if from.strategy {
		wantHeldBack(t, paused, waits, held)
	} else {
		wantRolledOutAtOnce(t, paused)
		wantKilledWithoutImage(t, waits)
	}
	changeOne(t, workloads["redefined"], "two")
	end(t, workloads, "volumes")

	before, onAll = takeAll(t, workloads), all.take(t)
	upgrade(t)
	wantKept(t, workloads, before, 9)
	all.wantKept(t, onAll, 9)
	wantStatuses(workloads)
	waits.Await("the condition UpdateWaiting is gone", func(nw *v1alpha1.NodeWorkload) bool { return !updateWaiting(nw) })
}

// end deletes one of workloads.
func end(t *testing.T, workloads map[string]*harness.Workload, name string) {
	t.Helper()
	w := workloads[name]
	w.Delete()
	wantEnd(t, w)
	delete(workloads, name)
}

// wantStatuses waits until the manager says of the last change what is to be said.
func wantStatuses(workloads map[string]*harness.Workload) {
	for _, s := range shapes() {
		w := workloads[s.name]
		if w == nil {
			continue
		}
		want := cmp.Or(s.reason, v1alpha1.ReasonAllNodesReady)
		w.AwaitObject(s.name+" has the reason "+want, func(mw *v1alpha1.ManagedWorkload) bool {
			ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
			return mw.Status.ObservedGeneration == mw.Generation && ready != nil && ready.Reason == want
		})
	}
}

const oneContainer = `
terminationGracePeriodSeconds: 5
containers:
- {name: main, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/main], volumeMounts: [{name: dir, mountPath: /dir}]}
volumes: [{name: dir, hostPath: {path: $DIR}}]`

// applyPaused has a changed template that spec.paused keeps from the node.
func applyPaused(t *testing.T) *harness.Workload {
	t.Helper()
	w := applyOnFirst(t, oneContainer)
	w.AwaitReady()
	w.ChangeObject(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.Paused = true
		mw.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: "one"}}
	})
	w.AwaitObject("the roll-out is paused", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.ObservedGeneration == mw.Generation && mw.Status.UpdatedNodes == 0
	})
	return w
}

// wantRolledOutAtOnce: an older manager knows no spec.paused.
func wantRolledOutAtOnce(t *testing.T, w *harness.Workload) {
	t.Helper()
	kill := w.AwaitTrigger("main", v1alpha1.TriggerDefinitionChanged)
	w.AwaitReady()
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || w.Get().Spec.Paused {
		t.Errorf("paused: %v, the kill: %+v", w.Get().Spec.Paused, kill)
	}
}

// applyWaiting has a changed template that waits for an image, so that its container runs on.
func applyWaiting(t *testing.T) *harness.Workload {
	t.Helper()
	w := applyOnFirst(t, oneContainer)
	w.AwaitReady()
	w.Change(func(template *corev1.PodTemplateSpec) {
		c := &template.Spec.Containers[0]
		c.Image, c.ImagePullPolicy = "managedworkload.dev/nowhere:v1", corev1.PullNever
	})
	w.Await("the change waits", func(nw *v1alpha1.NodeWorkload) bool {
		return updateWaiting(nw) && nw.Status.Ready == "1/1"
	})
	return w
}

func updateWaiting(nw *v1alpha1.NodeWorkload) bool {
	return meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting)
}

// wantKilledWithoutImage: an older shim does not wait for images, and leaves the condition
// of the newer one as it is, also when the template is taken back.
func wantKilledWithoutImage(t *testing.T, w *harness.Workload) {
	t.Helper()
	w.Await("the change was made", waiting("ErrImageNeverPull"))
	w.ApplyTemplate(onFirst(w, oneContainer))
	if nw := w.AwaitReady(); !updateWaiting(nw) {
		t.Errorf("the condition UpdateWaiting is gone: %v", nw.Status.Conditions)
	}
}
