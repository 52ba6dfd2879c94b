// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// AgentRestartGracePeriod is how long before the start of the agent a container
// must have started to count as one that an earlier agent ran: it keeps its
// verdicts and its readiness. probe and status ask it as the kubelet does, so
// that both can be compared with it. The kubelet's own rule makes a container
// that was started right before a restart not ready; the shim therefore gives
// both a start that is later by the same period, and the two cancel out.
// (kubelet prober/prober_manager.go:kubeletRestartGracePeriod)
const AgentRestartGracePeriod = 10 * time.Second

// StartedByEarlierAgent returns whether a container that started at startedAt
// counts as one that an earlier agent ran. A zero startedAt is unknown: false.
func StartedByEarlierAgent(startedAt, agentStartedAt time.Time) bool {
	return !startedAt.IsZero() && startedAt.Before(agentStartedAt.Add(-AgentRestartGracePeriod))
}
