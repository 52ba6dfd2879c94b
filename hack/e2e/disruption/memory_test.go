// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// awaitBackoff waits until the container waits that long for its restart.
func awaitBackoff(w *harness.Workload, wait string) *v1alpha1.NodeWorkload {
	return w.Await("it waits "+wait, func(nw *v1alpha1.NodeWorkload) bool {
		for _, c := range nw.Status.ContainerStatuses {
			if s := c.State.Waiting; s != nil && s.Reason == "CrashLoopBackOff" && strings.HasPrefix(s.Message, "back-off "+wait+" restarting failed container=c") {
				return true
			}
		}
		return false
	})
}

// A workload's own back-off is in force, and the shim that comes after a crash
// neither forgets nor begins it again.
func TestBackoffSurvivesAShimCrash(t *testing.T) {
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [seq, append, /dir/c, started, ",", exit, "3"], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.ChangeObject(func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: ptr.To[int32](3), MaxSeconds: ptr.To[int32](7)}
	})
	awaitBackoff(w, "6s")
	kill(t, env.Stack.Shim)
	start(t, env.Stack.Shim)
	awaitBackoff(w, "7s")
	starts := w.Find("c", "started")
	last := starts[len(starts)-1].Time.Sub(starts[len(starts)-2].Time)
	if last < 5500*time.Millisecond {
		t.Errorf("restarted after %s, want the 6s of before the crash", last)
	}
}

// What changed without a restart is known to the shim that comes after a crash,
// also when no checkpoint has it: the container's labels are those of its creation.
func TestChangesInPlaceSurviveAShimCrash(t *testing.T) {
	w := env.Apply(t, `
terminationGracePeriodSeconds: 40
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}],
  resources: {limits: {cpu: 100m}},
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, old]}}}}`+dirVolume)
	before := w.AwaitReady()
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.TerminationGracePeriodSeconds = ptr.To[int64](13)
		c := &tmpl.Spec.Containers[0]
		c.Lifecycle.PreStop.Exec.Command[3] = "new"
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("200m")
	})
	w.Await("the change is taken over", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.TemplateHash != before.Status.TemplateHash && nw.Status.ObservedGeneration == nw.Generation
	})
	kill(t, env.Stack.Shim)
	forceDelete(t, w)
	start(t, env.Stack.Shim)
	w.AwaitFind("c", "stopped", 1)
	// The manager's next instance writes below.
	if got := harness.Texts(w.Journal("c")); len(got) < 4 || !slices.Equal(got[1:4], []string{"new", "signal SIGTERM", "stopped code=0"}) {
		t.Errorf("the container saw %q, want one start, the new hook and SIGTERM", got)
	}
}
