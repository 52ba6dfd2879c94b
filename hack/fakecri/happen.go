// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Happen applies an event to the runtime. Those that are not about the runtime
// are left alone.
func (r *Runtime) Happen(e *scenario.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	switch e.Kind {
	case scenario.Fail:
		r.failures[e.Method+"/"+e.Container] = e.Error
	case scenario.ImageGone:
		delete(r.Images, e.Image)
	case scenario.SandboxNoIP:
		r.noIP = true
	case scenario.SandboxNoStatus:
		r.noNetwork = true
	case scenario.SandboxMode:
		r.mode = true
	case scenario.SandboxDied, scenario.SandboxNotReady, scenario.SandboxLost, scenario.SandboxOnlyLost, scenario.SandboxSecond:
		r.happenToSandbox(e)
	default:
		r.happenToContainer(e)
	}
}

func (r *Runtime) happenToSandbox(e *scenario.Event) {
	if len(r.Sandboxes) == 0 {
		return
	}
	s := r.Sandboxes[0]
	switch e.Kind {
	case scenario.SandboxDied:
		r.killRest(s.ID)
		s.State, s.Network = plan.SandboxNotReady, nil
	case scenario.SandboxNotReady:
		s.State = plan.SandboxNotReady
	case scenario.SandboxLost:
		r.killRest(s.ID)
		r.Containers = slices.DeleteFunc(r.Containers, func(c *Container) bool { return c.SandboxID == s.ID })
		r.dropSandbox(s.ID)
	case scenario.SandboxOnlyLost:
		r.dropSandbox(s.ID)
	case scenario.SandboxSecond:
		second := *s
		second.ID, second.State, second.CreatedAt = r.newID("sandbox"), plan.SandboxReady, r.now()
		second.Attempt++
		if s.Network != nil && s.Network.IP != "" {
			second.Network = &plan.SandboxNetwork{IP: SecondIP, AdditionalIPs: r.additional}
		}
		r.Sandboxes = slices.Insert(r.Sandboxes, 0, &second)
	}
}

var otherMode = map[runtimeapi.NamespaceMode]runtimeapi.NamespaceMode{
	runtimeapi.NamespaceMode_POD: runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE: runtimeapi.NamespaceMode_POD,
}

func (r *Runtime) happenToContainer(e *scenario.Event) {
	c := r.newest(e.Container)
	if c == nil {
		return
	}
	running := c.State == plan.ContainerRunning
	switch e.Kind {
	case scenario.Exit:
		if running {
			at := time.Now().Add(-seconds(e.Ago))
			if at.Before(c.StartedAt) {
				at = c.StartedAt
			}
			c.exit(at, e.ExitCode, e.OOM)
		}
	case scenario.Unknown:
		if running {
			c.State = plan.ContainerUnknown
		}
	case scenario.UnknownDead:
		if c.State == plan.ContainerExited {
			c.State = plan.ContainerUnknown
		}
	case scenario.Removed:
		r.forget(c)
	case scenario.Liveness:
		if running {
			r.verdicts(c.ID).Liveness = e.Verdict
		}
	case scenario.Startup:
		if running {
			r.verdicts(c.ID).Startup = e.Verdict
		}
	}
}

// Calm ends the failures of a step.
func (r *Runtime) Calm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.failures)
	clear(r.fresh)
}
