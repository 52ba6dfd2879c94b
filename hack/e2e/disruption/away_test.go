// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// A StopContainer ends with the shim that called it: no SIGKILL follows when its
// time is over. What kills the container then is not the shim, and the record of
// the shim that comes next does not claim that kill.
func TestShimAwayWhenTheTimeIsOver(t *testing.T) {
	w := env.Apply(t, `
terminationGracePeriodSeconds: 4
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	w.Delete()
	began := w.AwaitFind("c", "signal SIGTERM", 1)[0]
	w.AwaitPhase("c", v1alpha1.KillPhaseStopping)
	kill(t, env.Stack.Shim)
	<-time.After(time.Until(began.Time.Add(4*time.Second + 2*time.Second)))
	left := containers(t, w)
	if len(left) != 1 || left[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("the containers are %v, want one that runs although its time is over", left)
	}
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	// Without a timeout it is SIGKILL.
	if _, err := cri.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: left[0].GetId()}); err != nil {
		t.Fatal(err)
	}
	start(t, env.Stack.Shim)
	kills := w.CollectUntilGone()
	if len(kills) != 1 {
		t.Fatalf("%d kill records, want the one that was begun: %+v", len(kills), kills)
	}
	got := kills[0]
	if got.Phase != v1alpha1.KillPhaseDone || got.Outcome != "" || !strings.Contains(got.Error, "who killed it is unknown") || got.ExitCode == nil || *got.ExitCode != 137 {
		t.Errorf("phase %s, outcome %q, error %q, exit code %v", got.Phase, got.Outcome, got.Error, got.ExitCode)
	}
	if !strings.Contains(got.Summary, "how it ended is not known") {
		t.Errorf("summary %q", got.Summary)
	}
	if n := len(w.Find("c", "signal SIGTERM")); n != 1 {
		t.Errorf("the container saw %q, want one SIGTERM", harness.Texts(w.Journal("c")))
	}
}
