// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// While the pod network is not ready, what a sandbox keeps that waits for images is looked
// after if it is on the host's network, whatever the template wants; what is not is left
// alone, as in the kubelet.
func TestNetworkNotReadyWhileASandboxWaits(t *testing.T) {
	onThePodNetwork := func(*template.Workload) {}
	for name, tt := range map[string]struct {
		before, after func(*template.Workload)
		image         string
		outside       bool
		// syncs is whether something is started or killed, and replaced a sandbox.
		syncs, replaced bool
	}{
		"kept on the host's network":            {onTheHost, onThePodNetwork, "absent:2", false, true, false},
		"kept on the pod network":               {onThePodNetwork, onTheHost, "absent:2", false, false, false},
		"replaced on the pod network":           {onTheHost, onThePodNetwork, "image:2", false, false, false},
		"replaced on the host's network":        {onThePodNetwork, onTheHost, "image:2", false, true, true},
		"started over on the pod network":       {onTheHost, onThePodNetwork, "absent:2", true, false, false},
		"started over on the host's network":    {onThePodNetwork, onTheHost, "absent:2", true, true, true},
		"not kept, on the host's network":       {onTheHost, onTheHost, "image:1", false, true, false},
		"not kept, on the pod network, as ever": {onThePodNetwork, onThePodNetwork, "image:1", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				r := newRegistry(n)
				n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
					n.mu.Lock()
					defer n.mu.Unlock()
					if r.Actions.KillPod {
						delete(n.pods, "w")
						n.outsideCgroup = false
					}
					n.run(r)
					return plan.SyncOutcome{}
				}
				var down atomic.Bool
				p := n.restoreWith(t, func(c *Config) {
					c.NetworkReady = func() error {
						if down.Load() {
							return errors.New("no network")
						}
						return nil
					}
				})
				n.begin(t)
				p.Update(workload("w", twoContainers("image:1", "image:1", "/"), tt.before))
				n.settle(time.Second)
				down.Store(true)
				r.set(func() { n.outsideCgroup = tt.outside })
				p.Update(workload("w", generation(2), twoContainers(tt.image, tt.image, "/"), tt.after))
				n.settle(time.Second)
				if !tt.outside {
					r.set(func() { // one of the two
						c := &n.pods["w"].containers[0]
						c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 1, time.Now()
					})
					p.Wake("w")
				}
				n.settle(time.Minute)
				n.mu.Lock()
				defer n.mu.Unlock()
				later := n.synced[1:]
				replaced := len(later) > 0 && later[0].Actions.KillPod
				if len(later) > 0 != tt.syncs || replaced != tt.replaced {
					t.Errorf("%d syncs, sandbox replaced: %v", len(later), replaced)
				}
			})
		})
	}
}

// While the pod network is not ready, nothing is started on it, and events say so with the kubelet's
// words; what is on the host's network starts.
func TestNetworkNotReady(t *testing.T) {
	const event = "event NetworkNotReady: network is not ready: container runtime network not ready: no plugin"
	for name, tt := range map[string]struct {
		network func(*template.Workload)
		waits   bool
	}{
		"pod network":    {func(*template.Workload) {}, true},
		"host's network": {onTheHost, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				var up atomic.Bool
				p := n.restoreWith(t, func(c *Config) {
					c.NetworkReady = func() error {
						if up.Load() {
							return nil
						}
						return errors.New("container runtime network not ready: no plugin")
					}
				})
				n.begin(t)
				p.Update(workload("w", tt.network))
				started := func() bool {
					n.settle(time.Minute)
					n.mu.Lock()
					defer n.mu.Unlock()
					return len(n.synced) > 0
				}
				if started() == tt.waits || n.did(event) != tt.waits {
					t.Errorf("while the network is not ready: %q", n.log())
				}
				up.Store(true)
				if !started() {
					t.Error("nothing is started once the network is ready")
				}
			})
		})
	}
}
