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

// A container of others in a sandbox of ours is told of once, and again when it is
// there anew.
func TestForeignContainersAreTold(t *testing.T) {
	told := record.NewFakeRecorder(100)
	o := &overseer{events: &events{recorder: told, node: "node", ended: make(chan struct{})}}
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
		o.tellForeign(t.Context(), step.pods)
		if len(told.Events) != step.want {
			t.Errorf("%d events about %+v, want %d", len(told.Events), step.pods[0].Foreign, step.want)
		}
		for range len(told.Events) {
			if e := <-told.Events; !strings.HasPrefix(e, "Warning ForeignContainers Container shell (") {
				t.Errorf("event %q", e)
			}
		}
	}
}
