// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/placement"
)

// place decides about all nodes, once for each placer.
func (s *scope) place() []placement.Placement {
	if s.placements == nil {
		s.placements, s.stays = make([]placement.Placement, len(s.nodes)), map[string]bool{}
		for i, node := range s.nodes {
			s.placements[i] = s.placer.Place(node)
			if s.mw.Spec.Paused && !s.placements[i].ShouldContinue && s.mayStay(node) {
				s.placements[i].ShouldContinue, s.stays[node.Name] = true, true
			}
		}
	}
	return s.placements
}

// mayStay reports whether the revision that a node has may keep running there. As long as
// a workload is paused its new template's placement ends nothing.
func (s *scope) mayStay(node *corev1.Node) bool {
	share := s.shares[node.Name]
	if share == nil || s.editions == nil {
		return false
	}
	revision, _ := s.revisionOf(share)
	e := s.editions[revision]
	if e == nil || revision == s.hash {
		return false
	}
	return placement.New(e.template()).Place(node).ShouldContinue
}

// placeBy changes what decides about nodes.
func (s *scope) placeBy(t *corev1.PodTemplateSpec) {
	s.placer, s.placements, s.stays = placement.New(t), nil, nil
}
