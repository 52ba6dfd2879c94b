// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// A workload that was active for too long is terminated with its own grace period
// and fails for good.
func TestActiveDeadline(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
activeDeadlineSeconds: 15
terminationGracePeriodSeconds: 9
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerTermination), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Message: "Pod was active on the node longer than the specified deadline", Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(9, v1alpha1.GraceSourcePod),
	})
	nw := w.Await("it has failed", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.Phase == corev1.PodFailed })
	if nw.Status.Reason != "DeadlineExceeded" || nw.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("reason %q, message %q", nw.Status.Reason, nw.Status.Message)
	}
	if got := nw.Status.Kills[0].RequestedBy; got != "shim (activeDeadlineSeconds)" {
		t.Errorf("requested by %q", got)
	}
	w.AwaitEvent("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
	if starts := w.AwaitFind("c", "started", 1); len(starts) != 1 {
		t.Errorf("the container saw %q", harness.Texts(w.Journal("c")))
	}
}
