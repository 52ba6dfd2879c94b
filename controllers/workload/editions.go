// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// edition is what a revision runs.
type edition struct {
	// revision is the hash of the user's template, and hash that of the admitted one.
	revision, hash string
	// admitted is nil until it was asked for.
	admitted *corev1.PodTemplateSpec
	// usage is what it uses of quotas, nil until it was asked for.
	usage  *quota.Usage
	object *v1alpha1.ManagedWorkloadRevision
}

// template is what the edition runs: a copy, since the revision is the cache's.
func (e *edition) template() *corev1.PodTemplateSpec {
	if e.admitted == nil {
		e.admitted = e.object.Spec.Template.DeepCopy()
	}
	return e.admitted
}

// uses is what the edition uses of quotas.
func (e *edition) uses() *quota.Usage {
	if e.usage == nil {
		e.usage = quota.UsageOf(&e.template().Spec)
	}
	return e.usage
}

// update is the edition of the current template.
func (s *scope) update() *edition { return s.editions[s.hash] }

// readEditions reads those of the object's revisions, by revision. That of the current template
// is what was accepted, whether its revision is there or not.
func (s *scope) readEditions() {
	s.editions = map[string]*edition{s.hash: {revision: s.hash, hash: template.Hash(s.admitted), admitted: s.admitted}}
	hashes := make(map[revisionKey]string, len(s.revisions))
	for _, object := range s.revisions {
		hash, known := s.memory.hashes[keyOf(object)]
		if !known {
			hash = template.Hash(&object.Spec.Template)
		}
		hashes[keyOf(object)] = hash
		if revision := object.Labels[v1alpha1.LabelRevision]; s.editions[revision] == nil {
			s.editions[revision] = &edition{revision: revision, hash: hash, object: object}
		}
	}
	s.memory.hashes, s.hashes = hashes, nil
}

// templates are those of the editions.
func (s *scope) templates() *rollout.Templates {
	if s.hashes == nil {
		s.hashes = &rollout.Templates{Update: s.hash, Hashes: make(map[string]string, len(s.editions))}
		for revision, e := range s.editions {
			s.hashes.Hashes[revision] = e.hash
		}
	}
	return s.hashes
}

// revisionOf is the revision that a share has, and whether the share was changed by hand
// so that it is none of it.
func (s *scope) revisionOf(share *fleet.Share) (revision string, edited bool) {
	return s.templates().Of(share.SpecHash, share.Revision())
}

// history are the revisions as a roll-out goes by them.
func (s *scope) history() []rollout.Revision {
	list := make([]rollout.Revision, 0, len(s.revisions))
	for _, object := range s.revisions {
		list = append(list, rollout.Revision{Hash: object.Labels[v1alpha1.LabelRevision], Number: object.Spec.Revision, RolledOut: object.Spec.RolledOut})
	}
	return list
}

// currentRevision is the revision that nodes keep, or get, where the update may not reach.
// One that was deleted by hand while most of them have it stays that revision: an earlier
// one is no substitute.
func (s *scope) currentRevision() string {
	if s.current == "" {
		s.current = s.computeCurrent()
	}
	return s.current
}

func (s *scope) computeCurrent() string {
	shares := map[string]int{}
	for _, share := range s.shares {
		shares[share.Revision()]++
	}
	current := rollout.Current(s.history(), s.hash, shares)
	for revision, n := range shares {
		if s.editions[revision] == nil && revision != "" && n > shares[current] && current != s.hash {
			current = revision
		}
	}
	return current
}
