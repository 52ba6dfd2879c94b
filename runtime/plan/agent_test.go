// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestStartedByEarlierAgent(t *testing.T) {
	agent := time.Unix(1_000_000, 0)
	for startedAt, want := range map[time.Time]bool{
		{}: false,
		agent.Add(-plan.AgentRestartGracePeriod - 1): true,
		agent.Add(-plan.AgentRestartGracePeriod):     false,
		agent:                                        false,
		agent.Add(time.Hour):                         false,
		agent.Add(-time.Hour):                        true,
	} {
		if got := plan.StartedByEarlierAgent(startedAt, agent); got != want {
			t.Errorf("started at %s, the agent at %s: got %t", startedAt, agent, got)
		}
	}
	// What the shim passes on: every container that ran before it counts.
	if !plan.StartedByEarlierAgent(agent.Add(-1), agent.Add(plan.AgentRestartGracePeriod)) {
		t.Error("a container started right before the shim does not count as an earlier shim's")
	}
}
