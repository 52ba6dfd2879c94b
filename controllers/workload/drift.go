// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
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
func (w *wanted) drift(nw *v1alpha1.NodeWorkload) []part {
	var parts []part
	if template.Hash(&nw.Spec.Template) != w.hash {
		parts = append(parts, partTemplate)
	}
	if !equality.Semantic.DeepEqual(nw.Spec.RestartBackoff, w.backoff) {
		parts = append(parts, partBackoff)
	}
	if !controllerutil.ContainsFinalizer(nw, v1alpha1.Finalizer) {
		parts = append(parts, partFinalizers)
	}
	for _, key := range w.labelDrift(nw) {
		parts = append(parts, part{[]string{"metadata", "labels", key}})
	}
	return parts
}

// labelDrift are the labels of a NodeWorkload that are missing, different or too many.
func (w *wanted) labelDrift(nw *v1alpha1.NodeWorkload) []string {
	labels := w.labels(nw.Spec.NodeName)
	if maps.Equal(labels, nw.Labels) {
		return nil
	}
	var keys []string
	for key, value := range labels {
		if got, ok := nw.Labels[key]; (!ok || got != value) && !w.imposed[key] {
			keys = append(keys, key)
		}
	}
	for key := range nw.Labels {
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
// not known. nw is as the API server has it. The rest is what the workload changed.
// applied is what all NodeWorkloads had before, nil when this manager has just begun:
// then only what managedFields say another writer wrote is taken for an edit.
func (w *wanted) handEdits(applied *wanted, nw *v1alpha1.NodeWorkload) (edits []part, who string) {
	for _, p := range w.drift(nw) {
		writer := writes.LastWriter(nw.ManagedFields, p.path...)
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
		return !equality.Semantic.DeepEqual(w.backoff, applied.backoff)
	case p.path[2] == v1alpha1.LabelRevision:
		return w.revision != applied.revision
	}
	return !maps.Equal(w.copied, applied.copied)
}
