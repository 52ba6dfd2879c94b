// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package preview

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
)

// readNode reads the Node of --node; nil without it.
func (o *Options) readNode() (*corev1.Node, error) {
	if o.NodeFile == "" {
		return nil, nil
	}
	data, err := o.readAll(o.NodeFile)
	if err != nil {
		return nil, fmt.Errorf("--node: %w", err)
	}
	node := &corev1.Node{}
	if err := yaml.Unmarshal(data, node); err != nil {
		return nil, fmt.Errorf("--node %s: %w", o.NodeFile, err)
	}
	if node.Kind != "Node" || node.Name == "" {
		return nil, fmt.Errorf("--node %s: want a Node with a name, as kubectl get node NAME -o yaml prints it", o.NodeFile)
	}
	return node, nil
}

// place adds what the manager decides before the shim does: whether the template
// belongs on the node. Without the Node a changed placement stays open.
func (in *Input) place(nw *template.Workload, node *corev1.Node) error {
	t := nw.Template
	if node == nil {
		in.placementUnknown(&t.Spec)
		return nil
	}
	if node.Name != nw.Spec.NodeName {
		return fmt.Errorf("--node is about node %q, the workload about %q", node.Name, nw.Spec.NodeName)
	}
	placer := placement.New(t)
	switch p := placer.Place(node); {
	case !p.ShouldContinue:
		in.Misplaced = placer.Reason(node)
	case !p.ShouldRun:
		in.Notes = append(in.Notes, "The manager keeps a NodeWorkload that the node has, and would not create one: "+placer.Reason(node)+".")
	}
	return nil
}

// placementUnknown says which fields of the placement were not checked.
func (in *Input) placementUnknown(now *corev1.PodSpec) {
	before := &corev1.PodSpec{}
	if in.Before != nil {
		before = &in.Before.Spec
	}
	var changed []string
	for path, values := range map[string][2]any{
		"spec.nodeSelector": {before.NodeSelector, now.NodeSelector},
		"spec.affinity":     {before.Affinity, now.Affinity},
		"spec.tolerations":  {before.Tolerations, now.Tolerations},
	} {
		if !equality.Semantic.DeepEqual(values[0], values[1]) {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	if len(changed) == 0 {
		return
	}
	fields := strings.Join(changed, ", ")
	if in.Before != nil {
		in.Undecided = fields + " changed: the manager may end the workload on this node. Give the Node with --node FILE to know"
		return
	}
	in.Notes = append(in.Notes, "The placement was not checked ("+fields+"): give the Node with --node FILE.")
}

// admissionNotes say what of the manager's verdict a preview does not know, and
// which fields have no effect.
func admissionNotes(nw *template.Workload) []string {
	notes := []string{"Admission was not asked: the API server may refuse the template (validation, PodSecurity, quota, webhooks)."}
	defaulted := nw.Template.DeepCopy()
	template.SetDefaults(defaulted)
	if _, ignored := template.Check(defaulted, field.NewPath("spec", "template")); len(ignored) > 0 {
		notes = append(notes, "Ignored: "+strings.Join(ignored, ", ")+".")
	}
	return notes
}
