// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"fmt"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Omitted is what a selection of ends leaves out.
type Omitted struct {
	// More is how many ends a limit kept back.
	More int `json:"more"`
	// Older is how many ends are older than what was asked for. A node's clock may be behind:
	// they are not dropped without a word.
	Older int `json:"older"`
	// NotKept is how many kills began on the selected nodes that no status holds a record of
	// any more: those lists are bounded.
	NotKept int64 `json:"notKept"`
}

// NotKept is how many kills of a node, or of all nodes for "", are in their counts and not in
// all, the ends that were collected.
func NotKept(nodes []v1alpha1.NodeWorkload, all []End, node string) int64 {
	kept := map[string]int64{}
	for i := range all {
		if all[i].Kill != nil {
			kept[all[i].NodeWorkload]++
		}
	}
	missing := int64(0)
	for i := range nodes {
		if nw := &nodes[i]; node == "" || nw.Spec.NodeName == node {
			missing += max(nw.Status.KillCount-kept[nw.Name], 0)
		}
	}
	return missing
}

// Sentences say what is left out, and where it is.
func (o Omitted) Sentences() []string {
	var list []string
	if o.More > 0 {
		list = append(list, fmt.Sprintf("%d older ones are not shown; --limit=0 shows all.", o.More))
	}
	switch {
	case o.Older == 1:
		list = append(list, "1 is older than --since, by the clock of its node, and not shown.")
	case o.Older > 1:
		list = append(list, fmt.Sprintf("%d are older than --since, by the clocks of their nodes, and not shown.", o.Older))
	}
	switch {
	case o.NotKept == 1:
		list = append(list, "Older kills are not kept: 1 more was counted. Events and metrics have it.")
	case o.NotKept > 1:
		list = append(list, fmt.Sprintf("Older kills are not kept: %d more were counted. Events and metrics have them.", o.NotKept))
	}
	return list
}
