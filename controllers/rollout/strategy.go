// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Strategy is how a revision reaches the nodes, with its defaults and numbers of nodes.
type Strategy struct {
	// OnDelete changes no node by itself.
	OnDelete bool
	// Paused changes no node, and serves new ones with the current revision.
	Paused bool
	// MaxUnavailable is the budget in nodes, at least 1.
	MaxUnavailable int
	// Partition is how many nodes stay on the current revision.
	Partition int
	// MinReady is how long a node must have been ready to be available.
	MinReady time.Duration
}

// StrategyOf is the strategy of a spec whose template should run on so many nodes. A
// percentage is one of them, rounded up.
func StrategyOf(spec *v1alpha1.ManagedWorkloadSpec, desired int) Strategy {
	s := Strategy{MaxUnavailable: 1, Paused: spec.Paused, MinReady: time.Duration(spec.MinReadySeconds) * time.Second}
	if spec.UpdateStrategy == nil {
		return s
	}
	s.OnDelete = spec.UpdateStrategy.Type == v1alpha1.OnDeleteStrategyType
	rolling := spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return s
	}
	if rolling.MaxUnavailable != nil {
		// The schema lets nothing else through; what cannot be read counts as the default.
		if n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, desired, true); err == nil {
			s.MaxUnavailable = max(n, 1)
		}
	}
	if rolling.Partition != nil {
		s.Partition = int(max(*rolling.Partition, 0))
	}
	return s
}

// NodeSelector are the labels that a node must have to be updated, nil for none.
func NodeSelector(spec *v1alpha1.ManagedWorkloadSpec) map[string]string {
	if spec.UpdateStrategy == nil || spec.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	return spec.UpdateStrategy.RollingUpdate.NodeSelector
}
