// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const nodeSelectorField = "updateStrategy.rollingUpdate.nodeSelector"

// held says how many nodes have the update, and what of the strategy keeps it from the others.
// Only a partition that let nodes through has words of kubectl's own.
func (s *rolloutStatus) held(spec *v1alpha1.ManagedWorkloadSpec) string {
	partition, selecting := int32(0), false
	if strategy := spec.UpdateStrategy; strategy != nil && strategy.RollingUpdate != nil {
		if p := strategy.RollingUpdate.Partition; p != nil {
			partition = min(*p, s.Desired)
		}
		selecting = len(strategy.RollingUpdate.NodeSelector) > 0
	}
	if s.Updated > 0 && partition > 0 && !selecting {
		return fmt.Sprintf("partitioned roll out complete: %d new nodes have been updated...", s.Updated)
	}
	text := fmt.Sprintf("%d of %d nodes updated", s.Updated, s.Desired)
	by := s.heldByRolling(partition, selecting)
	if onDelete(spec) {
		by = "OnDelete updates a node when its NodeWorkload is deleted"
	}
	if by != "" {
		text += ": " + by
	}
	return text
}

func (s *rolloutStatus) heldByRolling(partition int32, selecting bool) string {
	none := s.Updated == 0
	switch {
	case none && partition == s.Desired:
		return fmt.Sprintf("the partition keeps all %d nodes", partition)
	case partition > 0 && selecting:
		return "nodeSelector and partition of updateStrategy.rollingUpdate keep the others"
	case partition > 0:
		return fmt.Sprintf("the partition keeps %d nodes", partition)
	case selecting && !none:
		return "the others do not match " + nodeSelectorField
	case selecting && s.Unreachable > 0:
		return "no node with a responding shim matches " + nodeSelectorField
	case selecting:
		return "no node matches " + nodeSelectorField
	}
	return ""
}

func onDelete(spec *v1alpha1.ManagedWorkloadSpec) bool {
	return spec.UpdateStrategy != nil && spec.UpdateStrategy.Type == v1alpha1.OnDeleteStrategyType
}
