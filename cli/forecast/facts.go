// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// factsOf is what a NodeWorkload, nil for none, says about its node.
func (f *forecaster) factsOf(p rollout.Place, nw *v1alpha1.NodeWorkload) rollout.Node {
	if nw == nil {
		return rollout.NodeOf(p, nil, &f.hashes)
	}
	st := &nw.Status
	share := &rollout.Share{
		Ending: !nw.DeletionTimestamp.IsZero(), Label: nw.Labels[v1alpha1.LabelRevision], SpecHash: template.Hash(&nw.Spec.Template),
		Observed: st.ObservedGeneration > 0, Reported: st.ObservedGeneration == nw.Generation, TemplateHash: st.TemplateHash,
		Succeeded: st.Phase == corev1.PodSucceeded, Killing: rollout.Killing(nw.Spec.Requests, st.Requests),
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionTrue {
		share.Ready, share.ReadySince = true, c.LastTransitionTime.Time
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionShimResponding); c != nil && c.Status != metav1.ConditionTrue {
		p.Responds, p.NoShim = false, c.Reason == v1alpha1.ReasonShimNotFound
	}
	return rollout.NodeOf(p, share, &f.hashes)
}

// revisionOf is the revision that a NodeWorkload has, and whether it was edited so that it is
// none of it.
func (f *forecaster) revisionOf(nw *v1alpha1.NodeWorkload) (revision string, edited bool) {
	return f.hashes.Of(template.Hash(&nw.Spec.Template), nw.Labels[v1alpha1.LabelRevision])
}

// runs is the template that runs, by the last report, and its revision. A shim that still
// waits for an image runs an earlier one than its NodeWorkload has.
func (f *forecaster) runs(nw *v1alpha1.NodeWorkload) (string, *corev1.PodTemplateSpec) {
	hash, edited := f.revisionOf(nw)
	if reported := f.hashes.Runs(nw.Status.TemplateHash, hash); reported != "" {
		hash, edited = reported, false
	}
	if t, known := f.made[hash]; known && !edited {
		return hash, t
	}
	return hash, &nw.Spec.Template
}
