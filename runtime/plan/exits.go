// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Exit is how an instance of a container ended.
type Exit struct {
	ID string `json:"id"`
	// SandboxID is empty where it is not known.
	SandboxID string `json:"sandboxID,omitempty"`
	ExitCode  int32  `json:"exitCode"`
	Reason    string `json:"reason,omitempty"`
}

// Exits are the containers whose newest instance was seen to have exited, by name. The runtime
// may have lost the instance since: others may remove it over CRI.
type Exits map[string]Exit

// Seen returns the exits after another look. An instance that is gone stays; one that was
// followed by another, and has not exited, goes.
func (e Exits) Seen(pod *corev1.Pod, observed *PodStatus) Exits {
	seen, cloned := e, false
	for c := range podspec.InitAndMain(pod) {
		s := observed.Current(c.Name)
		if s == nil {
			continue
		}
		before, known := seen[c.Name]
		after := Exit{ID: s.ID, SandboxID: s.SandboxID, ExitCode: s.ExitCode, Reason: s.Reason}
		exited := s.State == ContainerExited
		if exited == known && (!known || before == after) {
			continue
		}
		if !cloned {
			seen, cloned = maps.Clone(seen), true
			if seen == nil {
				seen = Exits{}
			}
		}
		if exited {
			seen[c.Name] = after
		} else {
			delete(seen, c.Name)
		}
	}
	return seen
}

// ExitsByStatus are the exits of main containers by a status: all that there is of them where
// nothing else was noted. It does not say in which sandbox an init container ran.
func ExitsByStatus(st *corev1.PodStatus) Exits {
	exits := Exits{}
	if st == nil || AllContainersRestarting(st) {
		return exits
	}
	for i := range st.ContainerStatuses {
		c := &st.ContainerStatuses[i]
		ended := c.State.Terminated
		if ended == nil || ended.ContainerID == "" {
			continue
		}
		_, id, _ := strings.Cut(ended.ContainerID, "://")
		exits[c.Name] = Exit{ID: id, ExitCode: ended.ExitCode, Reason: ended.Reason}
	}
	return exits
}

// status is an exit as the runtime would report it, nil if there is none.
func (e Exits) status(name string) *ContainerStatus {
	exit, known := e[name]
	if !known {
		return nil
	}
	return &ContainerStatus{
		ID: exit.ID, Name: name, SandboxID: exit.SandboxID, State: ContainerExited, ExitCode: exit.ExitCode, Reason: exit.Reason,
	}
}
