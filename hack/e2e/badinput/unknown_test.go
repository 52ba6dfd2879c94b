// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/criproxy"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// A container whose state the runtime does not know when its workload is deleted is
// killed like the others, with its hook, its grace period and a record, and not by
// force at the end of its sandbox.
func TestUnknownContainerIsKilledWithItsPod(t *testing.T) {
	t.Parallel()
	container := func(name string) string {
		return fmt.Sprintf(`
- {name: %[1]s, image: %[2]s, args: [serve, --log-file=/dir/%[1]s], %[3]s,
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/%[1]s, hook]}}}}`, name, testImage, dirMount)
	}
	w := env.Apply(t, "\nterminationGracePeriodSeconds: 20\ncontainers:"+container("known")+container("lost")+dirVolume)
	lost := ""
	for _, c := range w.AwaitReady().Status.ContainerStatuses {
		if c.Name == "lost" {
			_, lost, _ = strings.Cut(c.ContainerID, "://")
		}
	}
	rule := criproxy.NewRule(criproxy.Rewrite, 0, "ListContainers", "ContainerStatus")
	rule.Change = func(method string, answer []byte) []byte { return unknown(t, method, answer, lost) }
	proxy.Add(rule)
	t.Cleanup(func() { proxy.Remove(rule) })
	kills := map[string]v1alpha1.KillRecord{}
	for _, k := range w.DeleteAndCollect() {
		kills[k.Container] = k
	}
	for _, name := range []string{"known", "lost"} {
		k := kills[name]
		if k.Trigger != v1alpha1.TriggerTermination || k.Grace.Seconds != 20 || k.Phase != v1alpha1.KillPhaseDone ||
			k.PreStop == nil || k.PreStop.Outcome != v1alpha1.PreStopSucceeded || k.Outcome != v1alpha1.KillOutcomeGraceful {
			t.Errorf("kill of %s: %+v, preStop %+v", name, k, k.PreStop)
		}
		if len(w.Find(name, "hook")) != 1 || len(w.Find(name, "signal SIGTERM")) != 1 {
			t.Errorf("journal of %s: %q, want its hook and SIGTERM", name, harness.Texts(w.Journal(name)))
		}
	}
}

// unknown returns an answer in which the state of a container that runs is not known.
func unknown(t *testing.T, method string, answer []byte, id string) []byte {
	var message proto.Message
	switch method {
	case "ListContainers":
		message = &runtimeapi.ListContainersResponse{}
	default:
		message = &runtimeapi.ContainerStatusResponse{}
	}
	if err := proto.Unmarshal(answer, message); err != nil {
		t.Error(err)
		return answer
	}
	hide := func(given string, state *runtimeapi.ContainerState) {
		if given == id && *state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			*state = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		}
	}
	switch m := message.(type) {
	case *runtimeapi.ListContainersResponse:
		for _, c := range m.GetContainers() {
			hide(c.GetId(), &c.State)
		}
	case *runtimeapi.ContainerStatusResponse:
		if m.GetStatus() != nil {
			hide(m.GetStatus().GetId(), &m.GetStatus().State)
		}
	}
	changed, err := proto.Marshal(message)
	if err != nil {
		t.Error(err)
		return answer
	}
	return changed
}
