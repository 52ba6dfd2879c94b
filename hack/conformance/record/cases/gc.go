// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

// NewGC makes a case of gc.
func NewGC(seed uint64, n int) *GC {
	d := newDice(seed, uint64(n))
	c := &GC{
		ID: fmt.Sprintf("gc-%d-%d", seed, n), Pods: map[string]recordings.GCPod{}, Containers: []recordings.GCContainer{}, Sandboxes: []recordings.GCSandbox{},
		AllSourcesReady: d.chance(80), EvictNonDeletedPods: d.chance(35),
		Policy: recordings.GCPolicy{
			MinAgeSeconds: pick[float64](d, 0, 0, 60, 200), MaxPerPodContainer: pick(d, -1, 0, 1, 1, 2), MaxContainers: pick(d, -1, -1, 0, 1, 3, 6),
		},
	}
	// No two things are of one age: their order would be chance.
	ages := d.Perm(600)
	age := func() float64 {
		next := ages[0]
		ages = ages[1:]
		return float64(next + 1)
	}
	for p := range 1 + d.IntN(4) {
		uid := fmt.Sprintf("uid-%d", p)
		c.Pods[uid] = recordings.GCPod{ContentRemoved: d.chance(22), RuntimeRemoved: d.chance(48), GraceSeconds: ptr.To(pick[int64](d, 0, 5, 30))}
		boxes := d.IntN(4)
		for s := range boxes {
			c.Sandboxes = append(c.Sandboxes, recordings.GCSandbox{
				ID: fmt.Sprintf("sb-%d-%d", p, s), PodUID: uid, State: pick(d, "NOTREADY", "NOTREADY", "READY"), AgeSeconds: age(),
				StopError: pick(d, "", "", "", "", "", "", "", "", "", "", "", "", "NotFound", "Unknown"),
			})
		}
		for name := range 1 + d.IntN(3) {
			for instance := range d.IntN(4) {
				c.Containers = append(c.Containers, recordings.GCContainer{
					ID: fmt.Sprintf("ct-%d-%d-%d", p, name, instance), Name: fmt.Sprintf("c%d", name), PodUID: uid,
					SandboxID: pick(d, "", fmt.Sprintf("sb-%d-0", p), fmt.Sprintf("sb-%d-0", p), fmt.Sprintf("sb-%d-%d", p, max(0, boxes-1))),
					State:     pick(d, "exited", "exited", "exited", "exited", "running", "unknown", "created"), AgeSeconds: age(),
					StopError:   pick(d, "", "", "", "", "", "", "", "", "", "", "", "", "NotFound", "Unknown"),
					RemoveError: pick(d, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "Unknown"),
				})
			}
		}
	}
	return c
}
