// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A foreign container in a sandbox of ours has one event, and another one when it
// comes back.
func TestForeignContainersAreReported(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	o := &overseer{events: &events{recorder: recorder, node: "node", ended: make(chan struct{})}}
	with := func(ids ...string) []cri.Pod {
		p := cri.Pod{UID: "a", Namespace: "ns", Name: "web", Ours: true}
		for _, id := range ids {
			p.Foreign = append(p.Foreign, plan.ForeignContainer{ID: id, Name: "shell", SandboxID: "s"})
		}
		return []cri.Pod{p, {UID: "b", Ours: true}}
	}
	for _, step := range []struct {
		pods []cri.Pod
		want int
	}{
		{with(), 0}, {with("1"), 1}, {with("1"), 0}, {with("1", "2"), 1}, {with("2"), 0}, {with("1"), 1},
	} {
		o.reportForeign(t.Context(), step.pods)
		if len(recorder.Events) != step.want {
			t.Errorf("%d events about %+v, want %d", len(recorder.Events), step.pods[0].Foreign, step.want)
		}
		for range len(recorder.Events) {
			if e := <-recorder.Events; !strings.HasPrefix(e, "Warning ForeignContainers Container shell (") {
				t.Errorf("event %q", e)
			}
		}
	}
}
