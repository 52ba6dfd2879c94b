// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// ownKeys is the prefix of labels that have a meaning here: they are not copied.
const ownKeys = "managedworkload.dev/"

// wanted is what the NodeWorkloads of a workload should have, whatever their revision.
type wanted struct {
	workload string
	backoff  *v1alpha1.RestartBackoff
	// copied are the labels of the ManagedWorkload that its NodeWorkloads have, too.
	copied map[string]string
	// imposed are labels that the API server gives NodeWorkloads whatever is written, by
	// a webhook: they are left as they are.
	imposed map[string]bool
}

func wantedOf(mw *v1alpha1.ManagedWorkload, imposed map[string]bool) *wanted {
	w := &wanted{workload: mw.Name, backoff: mw.Spec.RestartBackoff.DeepCopy(), copied: map[string]string{}, imposed: imposed}
	for key, value := range mw.Labels {
		if !strings.HasPrefix(key, ownKeys) && key != v1alpha1.LabelRevision {
			w.copied[key] = value
		}
	}
	return w
}

// labels are those of the NodeWorkload on a node with a revision; "" is an unknown one.
func (w *wanted) labels(node, revision string) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelWorkload: placement.LabelValue(w.workload),
		v1alpha1.LabelNode:     placement.LabelValue(node),
	}
	if revision != "" {
		labels[v1alpha1.LabelRevision] = revision
	}
	maps.Copy(labels, w.copied)
	return labels
}

// part is a part of a NodeWorkload that the manager owns, as its field path.
type part struct{ path []string }

func (p part) String() string {
	if len(p.path) == 3 {
		return "label " + p.path[2]
	}
	return strings.Join(p.path, ".")
}

// Parts of a NodeWorkload, beside its labels.
var (
	partTemplate   = part{[]string{"spec", "template"}}
	partBackoff    = part{[]string{"spec", "restartBackoff"}}
	partFinalizers = part{[]string{"metadata", "finalizers"}}
)

// drift are the parts of a NodeWorkload that are not as they should be with an edition.
func (w *wanted) drift(share *fleet.Share, e *edition) []part {
	var parts []part
	if share.SpecHash != e.hash {
		parts = append(parts, partTemplate)
	}
	if !sameBackoff(share.RestartBackoff, w.backoff) {
		parts = append(parts, partBackoff)
	}
	if !slices.Contains(share.Finalizers, v1alpha1.Finalizer) {
		parts = append(parts, partFinalizers)
	}
	for _, key := range w.labelDrift(share, e.revision) {
		parts = append(parts, part{[]string{"metadata", "labels", key}})
	}
	return parts
}

// drifted reports whether drift is anything beside the template, without a list.
func (w *wanted) drifted(share *fleet.Share, revision string) bool {
	return !sameBackoff(share.RestartBackoff, w.backoff) || !slices.Contains(share.Finalizers, v1alpha1.Finalizer) ||
		len(w.labelDrift(share, revision)) > 0
}

// labelled reports whether a NodeWorkload has exactly the labels that it should have.
func (w *wanted) labelled(share *fleet.Share, revision string) bool {
	if revision == "" || len(share.Labels) != len(w.copied)+3 || share.Labels[v1alpha1.LabelWorkload] != placement.LabelValue(w.workload) ||
		share.Labels[v1alpha1.LabelRevision] != revision || share.Labels[v1alpha1.LabelNode] != placement.LabelValue(share.Node) {
		return false
	}
	for key, value := range w.copied {
		if got, ok := share.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// labelDrift are the labels of a NodeWorkload that are missing, different or too many.
func (w *wanted) labelDrift(share *fleet.Share, revision string) []string {
	if w.labelled(share, revision) {
		return nil
	}
	labels := w.labels(share.Node, revision)
	if maps.Equal(labels, share.Labels) {
		return nil
	}
	var keys []string
	for key, value := range labels {
		if got, ok := share.Labels[key]; (!ok || got != value) && !w.imposed[key] {
			keys = append(keys, key)
		}
	}
	for key := range share.Labels {
		if _, ok := labels[key]; !ok && !w.imposed[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// definition reports whether parts are about what runs.
func definition(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.path[0] == "spec" })
}

// handEdits are the parts that another writer changed, and who that was, "" where it is
// not known. share is as the API server has it, with its managedFields. The rest is what the
// workload changed. What all NodeWorkloads had before is not known when this manager has
// just begun: then only what managedFields say another writer wrote is taken for an edit.
func (s *scope) handEdits(share *fleet.Share, to *edition, fields []metav1.ManagedFieldsEntry) (edits []part, who string) {
	for _, p := range s.wanted.drift(share, to) {
		writer := writes.LastWriter(fields, p.path...)
		if !s.edited(share, p, writer) {
			continue
		}
		edits = append(edits, p)
		if writer != writes.FieldManager && who == "" {
			who = writer
		}
	}
	return edits, who
}

// edited reports whether a part of a NodeWorkload was changed by another than the manager.
func (s *scope) edited(share *fleet.Share, p part, writer string) bool {
	applied := s.memory.applied
	switch {
	case len(p.path) == 3 && strings.HasPrefix(p.path[2], ownKeys), slices.Equal(p.path, partFinalizers.path):
		return true
	case writer == writes.FieldManager:
		return false
	case slices.Equal(p.path, partTemplate.path):
		_, edited := s.revisionOf(share)
		return edited
	case len(p.path) == 3 && p.path[2] == v1alpha1.LabelRevision:
		labelled := s.editions[share.Revision()]
		return share.SpecHash == s.update().hash && (labelled == nil || labelled.hash != share.SpecHash)
	case applied == nil:
		return writer != ""
	case slices.Equal(p.path, partBackoff.path):
		return sameBackoff(s.wanted.backoff, applied.backoff)
	}
	return maps.Equal(s.wanted.copied, applied.copied)
}
