// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
)

// Demands are what a template asks of a node, of its namespace and of its end. They are shared by all Shares of
// one template, and are not changed.
type Demands struct {
	// References are what it refers to, never nil.
	References *References
	// Amount is what it requests, as the scheduler would count it for a Pod: init containers, sidecars, requests of
	// the pod and overhead included.
	Amount Amount
	// Usage is what it uses of quotas.
	Usage *quota.Usage
	// Grace is its terminationGracePeriodSeconds, nil where it is not set.
	Grace *int64
}

// demands are those of templates, by their hashes.
var demands = &shared[*Demands]{most: maxSets}

// demandsOf are those of a template with a hash.
func demandsOf(hash string, spec *corev1.PodSpec) *Demands {
	return demands.one(hash, func() *Demands {
		return &Demands{
			References: references(spec), Amount: requested(spec), Usage: quota.UsageOf(spec), Grace: copied(spec.TerminationGracePeriodSeconds),
		}
	}).value
}

func requested(spec *corev1.PodSpec) Amount {
	return AmountIn(resource.PodRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{}))
}

// takeTemplate notes what the template of its spec is and asks for. It is not looked at again while the generation stays.
func (s *Share) takeTemplate(nw *v1alpha1.NodeWorkload, before *Share) {
	if before != nil && before.UID == nw.UID && before.Generation == nw.Generation {
		s.SpecHash, s.Demands = before.SpecHash, before.Demands
	} else {
		s.SpecHash = intern(template.Hash(&nw.Spec.Template))
		s.Demands = demandsOf(s.SpecHash, &nw.Spec.Template.Spec)
	}
	s.Amount, s.Usage = s.Demands.Amount, s.Demands.Usage
}
