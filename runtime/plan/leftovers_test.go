// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"
)

// Nothing is killed while the runtime has anything that may have a process, whatever keeps the pod's
// place busy, and what has just ended has time to go.
func TestMayKillLeftovers(t *testing.T) {
	ended := PodStatus{Sandboxes: []SandboxStatus{{State: SandboxNotReady}}, Containers: []ContainerStatus{{State: ContainerExited}}}
	for name, tt := range map[string]struct {
		observed PodStatus
		failing  time.Duration
		want     bool
	}{
		"all has ended":                           {ended, time.Minute, true},
		"all is removed":                          {PodStatus{}, time.Minute, true},
		"just now":                                {ended, time.Second, false},
		"a sandbox that is ready":                 {PodStatus{Sandboxes: []SandboxStatus{{State: SandboxReady}}}, time.Hour, false},
		"a container in unknown state":            {PodStatus{Containers: []ContainerStatus{{State: ContainerUnknown}}}, time.Hour, false},
		"a container of which no program has run": {PodStatus{Containers: []ContainerStatus{{State: ContainerCreated}}}, time.Hour, true},
		"a running container":                     {PodStatus{Containers: []ContainerStatus{{State: ContainerExited}, {State: ContainerRunning}}}, time.Hour, false},
	} {
		if got := MayKillLeftovers(&tt.observed, tt.failing); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
