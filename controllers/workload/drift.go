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

// wanted is what the NodeWorkloads of a workload should have.
type wanted struct {
	workload string
	// revision is the hash of the user's template, and hash that of what admission made of
	// it, which runs.
	revision, hash string
	backoff        *v1alpha1.RestartBackoff
	// copied are the labels of the ManagedWorkload that its NodeWorkloads have, too.
	copied map[string]string
	// imposed are labels that the API server gives NodeWorkloads whatever is written, by
	// a webhook: they are left as they are.
	imposed map[string]bool
}

func wantedOf(mw *v1alpha1.ManagedWorkload, revision, hash string, imposed map[string]bool) *wanted {
	w := &wanted{workload: mw.Name, revision: revision, hash: hash, backoff: mw.Spec.RestartBackoff.DeepCopy(), copied: map[string]string{}, imposed: imposed}
	for key, value := range mw.Labels {
		if !strings.HasPrefix(key, ownKeys) && key != v1alpha1.LabelRevision {
			w.copied[key] = value
		}
	}
	return w
}

// labels are those of the NodeWorkload on a node.
func (w *wanted) labels(node string) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelWorkload: placement.LabelValue(w.workload),
		v1alpha1.LabelNode:     placement.LabelValue(node),
		v1alpha1.LabelRevision: w.revision,
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

// drift are the parts of a NodeWorkload that are not as they should be.
func (w *wanted) drift(share *fleet.Share) []part {
	var parts []part
	if share.SpecHash != w.hash {
		parts = append(parts, partTemplate)
	}
	if !sameBackoff(share.RestartBackoff, w.backoff) {
		parts = append(parts, partBackoff)
	}
	if !slices.Contains(share.Finalizers, v1alpha1.Finalizer) {
		parts = append(parts, partFinalizers)
	}
	for _, key := range w.labelDrift(share) {
		parts = append(parts, part{[]string{"metadata", "labels", key}})
	}
	return parts
}

// drifted reports whether there is any drift.
func (w *wanted) drifted(share *fleet.Share) bool {
	return !(w.hash == share.SpecHash && sameBackoff(share.RestartBackoff, w.backoff) && slices.Contains(share.Finalizers, v1alpha1.Finalizer) && w.labelled(share)) &&
		len(w.drift(share)) > 0
}

// labelled reports whether a NodeWorkload has exactly the labels it should have.
func (w *wanted) labelled(share *fleet.Share) bool {
	if len(share.Labels) != len(w.copied)+3 || share.Labels[v1alpha1.LabelWorkload] != placement.LabelValue(w.workload) ||
		share.Labels[v1alpha1.LabelRevision] != w.revision || share.Labels[v1alpha1.LabelNode] != placement.LabelValue(share.Node) {
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
func (w *wanted) labelDrift(share *fleet.Share) []string {
	if w.labelled(share) {
		return nil
	}
	labels := w.labels(share.Node)
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
// not known. fields are the managedFields of share. The rest is what the workload changed.
// applied is what all NodeWorkloads had before, nil when this manager has just begun:
// then only what managedFields say another writer wrote is taken for an edit.
func (w *wanted) handEdits(applied *wanted, share *fleet.Share, fields []metav1.ManagedFieldsEntry) (edits []part, who string) {
	for _, p := range w.drift(share) {
		writer := writes.LastWriter(fields, p.path...)
		var edited bool
		switch {
		case len(p.path) == 3 && strings.HasPrefix(p.path[2], ownKeys), slices.Equal(p.path, partFinalizers.path):
			edited = true
		case writer == writes.FieldManager:
		case applied == nil:
			edited = writer != ""
		default:
			edited = !w.changed(applied, p)
		}
		if !edited {
			continue
		}
		edits = append(edits, p)
		if writer != writes.FieldManager && who == "" {
			who = writer
		}
	}
	return edits, who
}

// changed reports whether a part should be another one than it was in applied.
func (w *wanted) changed(applied *wanted, p part) bool {
	switch {
	case slices.Equal(p.path, partTemplate.path):
		return w.hash != applied.hash
	case slices.Equal(p.path, partBackoff.path):
		return !sameBackoff(w.backoff, applied.backoff)
	case p.path[2] == v1alpha1.LabelRevision:
		return w.revision != applied.revision
	}
	return !maps.Equal(w.copied, applied.copied)
}
