// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
	"github.com/managedworkload/managedworkload/internal/revision"
)

// Input is what a forecast depends on.
type Input struct {
	// After is the ManagedWorkload as it would be.
	After *v1alpha1.ManagedWorkload
	// Admitted is what admission makes of its template; nil if that is not known.
	Admitted *corev1.PodTemplateSpec
	// Nodes of the cluster; nil if they are not known: then each NodeWorkload stays on its
	// node.
	Nodes []corev1.Node
	// Shims are the nodes that ever had a shim; nil if that is not known: then each has one.
	Shims map[string]bool
	// NodeWorkloads are its own, and Taken the names of those of its namespace that are not.
	NodeWorkloads []v1alpha1.NodeWorkload
	Taken         map[string]bool
	Revisions     []v1alpha1.ManagedWorkloadRevision
	Now           time.Time
}

// Forecast is what would happen.
type Forecast struct {
	// UpdateRevision is that of the changed template, CurrentRevision what nodes keep that
	// the update does not reach.
	UpdateRevision  string `json:"updateRevision"`
	CurrentRevision string `json:"currentRevision"`
	// Ends are the nodes that the changed template does not match: the workload ends there
	// at once.
	Ends []NodeChange `json:"ends"`
	// Batches of nodes; a batch begins when those before are available.
	Batches [][]NodeChange `json:"batches"`
	// Waiting are the nodes that do not get the update.
	Waiting []Waiting `json:"waiting"`
	// Kills is how many containers would be killed in all.
	Kills int      `json:"kills"`
	Notes []string `json:"notes"`
}

// NodeChange is what happens to one node.
type NodeChange struct {
	Node string `json:"node"`
	// From is the revision that runs, empty on a new node; To is what it gets, empty where
	// the workload ends.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Reason is why the workload ends there.
	Reason string `json:"reason,omitempty"`
	Kills  []Kill `json:"kills"`
}

// Waiting is a node that does not get the update, and why.
type Waiting struct {
	Node   string         `json:"node"`
	Reason rollout.Reason `json:"reason"`
}

// forecaster makes one forecast.
type forecaster struct {
	Input
	out    Forecast
	facts  rollout.Input
	shares []*v1alpha1.NodeWorkload           // of facts.Nodes
	made   map[string]*corev1.PodTemplateSpec // what admission made of templates
	hashes rollout.Templates
}

// Compute returns what a change would do.
func Compute(in Input) *Forecast {
	f := &forecaster{Input: in, out: Forecast{
		Ends: []NodeChange{}, Batches: [][]NodeChange{}, Waiting: []Waiting{}, Notes: []string{},
	}}
	f.readRevisions()
	f.gather()
	f.simulate()
	f.count()
	f.noteHolds()
	return &f.out
}

// readRevisions fills what is known of templates by their hash.
func (f *forecaster) readRevisions() {
	f.made, f.hashes.Hashes = map[string]*corev1.PodTemplateSpec{}, map[string]string{}
	for i := range f.Revisions {
		r := &f.Revisions[i]
		hash := r.Labels[v1alpha1.LabelRevision]
		f.made[hash], f.hashes.Hashes[hash] = &r.Spec.Template, template.Hash(&r.Spec.Template)
	}
	after := f.After.Spec.Template.DeepCopy()
	template.SetDefaults(after)
	f.out.UpdateRevision = template.Hash(after)
	f.hashes.Update = f.out.UpdateRevision
	switch {
	case f.made[f.out.UpdateRevision] != nil:
	case f.Admitted != nil:
		f.made[f.out.UpdateRevision] = f.Admitted
	default: // what admission made of one template says nothing about the other
		f.made[f.out.UpdateRevision] = after
		f.useUsersTemplates()
	}
}

// useUsersTemplates compares what users wrote, where admission changes templates.
func (f *forecaster) useUsersTemplates() {
	for i := range f.Revisions {
		r := &f.Revisions[i]
		if r.Spec.UserPatch == "" {
			continue
		}
		user, err := revision.User(&r.Spec)
		if err != nil {
			f.note("What the user wrote in revision %d cannot be read: kills are computed from what admission made of it.", r.Spec.Revision)
			continue
		}
		f.note("Admission changes the template of revision %d: kills are computed from what the user wrote.", r.Spec.Revision)
		f.made[r.Labels[v1alpha1.LabelRevision]] = user
	}
}

func (f *forecaster) note(format string, args ...any) {
	f.out.Notes = append(f.out.Notes, fmt.Sprintf(format, args...))
}

// gather says what is known about each node.
func (f *forecaster) gather() {
	placer := placement.New(f.made[f.out.UpdateRevision]) // admission may have narrowed it
	selector := labels.SelectorFromSet(rollout.NodeSelector(&f.After.Spec))
	byNode, shares := map[string]*v1alpha1.NodeWorkload{}, map[string]int{}
	for i := range f.NodeWorkloads {
		nw := &f.NodeWorkloads[i]
		byNode[nw.Spec.NodeName] = nw
		shares[nw.Labels[v1alpha1.LabelRevision]]++
	}
	nodes := f.Nodes
	if nodes == nil {
		f.note("The nodes are not known: each NodeWorkload is taken to stay, and to be reached by nodeSelector.")
		for name := range byNode {
			node := corev1.Node{}
			node.Name = name
			nodes = append(nodes, node)
		}
		slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	desired := 0
	for i := range nodes {
		node, nw := &nodes[i], byNode[nodes[i].Name]
		place := f.place(placer, node, nw)
		switch {
		case nw == nil && !place.ShouldRun:
			continue
		case nw != nil && !place.ShouldContinue:
			if nw.DeletionTimestamp.IsZero() { // or it ends anyway
				f.end(nw, placer.Reason(node))
			}
			continue
		case place.ShouldRun:
			desired++
		}
		noShim := nw == nil && f.Shims != nil && !f.Shims[node.Name]
		p := rollout.Place{
			Name: node.Name, Desired: place.ShouldRun, Selected: f.Nodes == nil || selector.Matches(labels.Set(node.Labels)),
			Blocked: nw == nil && f.Taken[placement.NodeWorkloadName(f.After.Name, node.Name)], Responds: !noShim, NoShim: noShim,
		}
		f.facts.Nodes, f.shares = append(f.facts.Nodes, f.factsOf(p, nw)), append(f.shares, nw)
	}
	f.facts.Strategy, f.facts.Now = rollout.StrategyOf(&f.After.Spec, desired), f.Now
	f.facts.Update, f.facts.Current = f.out.UpdateRevision, f.current(shares)
	f.out.CurrentRevision = f.facts.Current
}

// place says whether a node runs the workload. Where nodes are not known all do.
func (f *forecaster) place(placer placement.Placer, node *corev1.Node, nw *v1alpha1.NodeWorkload) placement.Placement {
	if f.Nodes == nil {
		return placement.Placement{ShouldRun: true, ShouldContinue: true}
	}
	place := placer.Place(node)
	place.ShouldContinue = place.ShouldContinue || nw != nil && f.mayStay(nw, node)
	return place
}

// mayStay reports whether what a node has may keep running there: as long as a workload is
// paused its new template's placement ends nothing.
func (f *forecaster) mayStay(nw *v1alpha1.NodeWorkload, node *corev1.Node) bool {
	revision, _ := f.revisionOf(nw)
	t, known := f.made[revision]
	return f.After.Spec.Paused && known && revision != f.out.UpdateRevision && placement.New(t).Place(node).ShouldContinue
}

// current is the revision that nodes keep which the update does not reach. The update has
// its number already.
func (f *forecaster) current(shares map[string]int) string {
	var revisions []rollout.Revision
	for i := range f.Revisions {
		r := &f.Revisions[i]
		revisions = append(revisions, rollout.Revision{Hash: r.Labels[v1alpha1.LabelRevision], Number: r.Spec.Revision, RolledOut: r.Spec.RolledOut})
	}
	number := rollout.Number(revisions, f.out.UpdateRevision)
	for i := range revisions {
		if r := &revisions[i]; r.Hash == f.out.UpdateRevision && r.Number != number {
			r.Number, r.RolledOut = number, rollout.StaysRolledOut(revisions, r.Hash)
		}
	}
	return rollout.Current(revisions, f.out.UpdateRevision, shares)
}

// end ends the workload on a node that the template does not match.
func (f *forecaster) end(nw *v1alpha1.NodeWorkload, reason string) {
	hash, running := f.runs(nw)
	f.out.Ends = append(f.out.Ends, NodeChange{
		Node: nw.Spec.NodeName, From: hash, Reason: reason, Kills: f.killsOfEnd(nw, running, reason),
	})
}

// count adds up the kills.
func (f *forecaster) count() {
	for _, changes := range append(slices.Clone(f.out.Batches), f.out.Ends) {
		for i := range changes {
			f.out.Kills += len(changes[i].Kills)
		}
	}
}
