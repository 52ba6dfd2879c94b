// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A restart of all keeps the order of a termination: the application drains with its sidecar.
func TestRestartOfAppAndSidecar(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 15
initContainers:
- {name: side, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve]}
containers:
- {name: app, image: managedworkload.dev/testprogram:v1, args: [serve, "--on-term=delay:3s"]}`)
	w.AwaitReady()
	w.Change(func(template *corev1.PodTemplateSpec) {
		template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
	})
	done := func(container string) v1alpha1.KillRecord {
		return w.AwaitKill("the kill of "+container+" is done", func(k v1alpha1.KillRecord) bool {
			return k.Container == container && k.Trigger == v1alpha1.TriggerRestartRequested && k.Phase == v1alpha1.KillPhaseDone
		})
	}
	app, side := done("app"), done("side")
	if side.StopTime.Before(app.FinishTime) {
		t.Errorf("the sidecar was asked to stop %s before the application had ended", app.FinishTime.Sub(side.StopTime.Time))
	}
	if side.Outcome != v1alpha1.KillOutcomeGraceful || app.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("outcomes %s of the sidecar, %s of the application", side.Outcome, app.Outcome)
	}
	nw := w.Await("both run again", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Ready == "2/2" && nw.Status.Restarts == 2 })
	if at := nw.Status.ContainerStatuses[0].State.Running.StartedAt; at.Time.Before(nw.Status.InitContainerStatuses[0].State.Running.StartedAt.Time) {
		t.Error("the application was started before its sidecar")
	}
}

// Two grace periods take no longer than one, and hold up no third container.
func TestKillsHoldUpNoOtherContainer(t *testing.T) {
	t.Parallel()
	const sick = `
  image: managedworkload.dev/testprogram:v1
  args: [serve, "--on-term=ignore"]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/sick]}, periodSeconds: 1, failureThreshold: 1}
  volumeMounts: [{name: dir, mountPath: /dir}]`
	w := env.Apply(t, `
terminationGracePeriodSeconds: 15
containers:
- name: a`+sick+`
- name: b`+sick+`
- {name: c, image: managedworkload.dev/testprogram:v1, args: [seq, wait-file, /dir/sick, ",", exit, "1"], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	touch(t, w, "sick")
	done := func(container string) v1alpha1.KillRecord {
		return w.AwaitKill("the kill of "+container+" is done", func(k v1alpha1.KillRecord) bool {
			return k.Container == container && k.Phase == v1alpha1.KillPhaseDone
		})
	}
	w.AwaitPhase("a", v1alpha1.KillPhaseStopping)
	w.Await("c was started again", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.ContainerStatuses[2].RestartCount > 0 })
	restarted := time.Now()
	a, b := done("a"), done("b")
	if a.FinishTime.Time.Before(restarted) || b.FinishTime.Time.Before(restarted) {
		t.Errorf("c was started again at %s, after the kills of %s and %s", restarted, a.FinishTime, b.FinishTime)
	}
	if apart := a.FinishTime.Sub(b.FinishTime.Time).Abs(); apart > 7*time.Second {
		t.Errorf("the kills ended %s apart, want both at once", apart)
	}
}
