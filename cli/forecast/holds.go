// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// mostHeld is how many nodes a note about one KillRequest names.
const mostHeld = 8

// noteHolds says on which nodes a KillRequest keeps containers stopped: what is held is killed by no
// change and started by none, and its node does not become available.
func (f *forecaster) noteHolds() {
	nodes := map[string][]string{}
	var requests []string
	for i := range f.NodeWorkloads {
		nw := &f.NodeWorkloads[i]
		for j := range nw.Spec.Requests {
			r := &nw.Spec.Requests[j]
			if r.Action != v1alpha1.RequestStop || r.DryRun {
				continue
			}
			if nodes[r.Name] == nil {
				requests = append(requests, r.Name)
			}
			nodes[r.Name] = append(nodes[r.Name], nw.Spec.NodeName)
		}
	}
	slices.Sort(requests)
	for _, name := range requests {
		held := nodes[name]
		slices.Sort(held)
		text := strings.Join(held[:min(len(held), mostHeld)], ", ")
		if len(held) > mostHeld {
			text += ", ..."
		}
		f.note("KillRequest %s keeps containers stopped on %d nodes (%s): they are not started with the change, and these nodes "+
			"count as unavailable until it is released. The batches are computed as if they became available.", name, len(held), text)
	}
}
