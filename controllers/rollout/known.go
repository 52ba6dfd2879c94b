// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Share is what is known of the NodeWorkload of a node, by whoever has read it.
type Share struct {
	// Ending: its deletion was asked for.
	Ending bool
	// Label is the revision that it was made from, and SpecHash that of the template it has.
	Label, SpecHash string
	// Observed: a shim ever took it. Reported: its report is about the generation of now.
	Observed, Reported bool
	// TemplateHash is that of the template that runs, by the last report.
	TemplateHash string
	// Succeeded: all its containers have. ReadySince is when it became ready.
	Succeeded, Ready bool
	ReadySince       time.Time
	// Killing: a person asked for kills that are not over.
	Killing bool
}

// Killing reports whether one of the requests of a NodeWorkload kills, and is not over by what its shim reported.
func Killing(requests []v1alpha1.NodeRequest, reports []v1alpha1.NodeRequestStatus) bool {
	return slices.ContainsFunc(requests, func(r v1alpha1.NodeRequest) bool {
		over := func(s v1alpha1.NodeRequestStatus) bool {
			return s.ID == r.ID && (s.Phase == v1alpha1.RequestSucceeded || s.Phase == v1alpha1.RequestFailed)
		}
		return !r.DryRun && r.Action != v1alpha1.RequestSignal && !slices.ContainsFunc(reports, over)
	})
}

// Place is what is known of a node beside its share.
type Place struct {
	Name string
	// Desired: the placement of the admitted template admits it. Selected: the strategy does.
	Desired, Selected bool
	// Refused: a change of its share failed before. Blocked: something else has its name.
	Refused, Blocked bool
	// NoRoom: a quota had no room for a share of it when one was last asked for.
	NoRoom bool
	// Responds: its shim does. NoShim: there was never one.
	Responds, NoShim bool
}

// Templates are those of the revisions of a workload, as admission made them.
type Templates struct {
	// Update is the revision of the current template.
	Update string
	// Hashes are those of the admitted templates, by revision; "" for one that is not known.
	Hashes map[string]string
}

// Of is the revision that a share has, and whether the share was changed by hand so that it is
// none of it. The template counts, and the label where it does not decide.
func (t *Templates) Of(specHash, label string) (revision string, edited bool) {
	if revision := t.Runs(specHash, label); revision != "" {
		return revision, false
	}
	_, known := t.Hashes[label]
	return label, known
}

// Runs is a revision that runs a template, "" for none that is known: the update if it does,
// then the likely one.
func (t *Templates) Runs(hash, likely string) string {
	if hash == "" {
		return ""
	}
	for _, revision := range []string{t.Update, likely} {
		if t.Hashes[revision] == hash {
			return revision
		}
	}
	for revision, admitted := range t.Hashes {
		if admitted == hash {
			return revision
		}
	}
	return ""
}

// NodeOf returns the facts that a roll-out uses on a node, from all that is known: share is nil where there is
// none. Whatever is decided within the budget of a roll-out is decided by it.
func NodeOf(p Place, share *Share, t *Templates) Node {
	n := Node{
		Name: p.Name, Desired: p.Desired, Selected: p.Selected, Refused: p.Refused, Blocked: p.Blocked, NoRoom: p.NoRoom,
		Responds: p.Responds, NoShim: p.NoShim,
	}
	if share == nil {
		return n
	}
	n.NoShim = p.NoShim && !share.Observed
	n.Present, n.Ending, n.Observed, n.Reported = true, share.Ending, share.Observed, share.Reported
	n.Revision, n.Edited = t.Of(share.SpecHash, share.Label)
	n.RunsSpec, n.Runs = share.TemplateHash == share.SpecHash, t.Runs(share.TemplateHash, share.Label)
	n.Ready, n.ReadySince, n.Killing = share.Ready || share.Succeeded, share.ReadySince, share.Killing
	return n
}
