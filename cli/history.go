// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
	"github.com/managedworkload/managedworkload/internal/revision"
)

// annotationChangeCause says why a person changed something, as for kubectl rollout
// history.
const annotationChangeCause = "kubernetes.io/change-cause"

// rolloutHistory are the revisions of a ManagedWorkload, the oldest first.
type rolloutHistory struct {
	typeMeta
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Revisions []historyItem `json:"revisions"`
}

type historyItem struct {
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"`
	// Nodes is how many nodes have it.
	Nodes int `json:"nodes"`
	// RolledOut: all nodes were available with it at one time.
	RolledOut bool `json:"rolledOut"`
	// Update: it is that of spec.template.
	Update            bool        `json:"update"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	ChangeCause       string      `json:"changeCause,omitempty"`
	// Unreadable is why what the user wrote cannot be read; then no rollout undo leads to it.
	Unreadable string `json:"unreadable,omitempty"`
	// Template is what the user wrote, with defaults; with --revision only.
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

func (a *app) historyCommand() *cobra.Command {
	var output string
	var revision int64
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions, and how many nodes have each",
		Long: `List the revisions of a ManagedWorkload, the oldest first: how many nodes have each,
whether all nodes were available with it at one time, and the change cause (the annotation
kubernetes.io/change-cause of the revision, of its template, or for the present revision of
the ManagedWorkload). With --revision, show the template.
` + exitCodes,
		Args: cobra.ExactArgs(1),
	}
	outputFlag(cmd, &output, formatJSON, formatYAML)
	cmd.Flags().Int64Var(&revision, "revision", 0, "Show this revision with its template")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		h, err := c.history(cmd.Context(), args[0], revision)
		switch {
		case err != nil:
			return err
		case output != "":
			return write(a.Out, output, h)
		case revision != 0:
			return h.printTemplate(terminal.New(a.Out))
		}
		return h.print(a)
	}
	return cmd
}

// history reads all revisions, or one with its template.
func (c *cluster) history(ctx context.Context, arg string, only int64) (*rolloutHistory, error) {
	mw, err := c.get(ctx, arg)
	if err != nil {
		return nil, err
	}
	revisions, err := c.revisions(ctx, mw)
	if err != nil {
		return nil, err
	}
	nodes, err := c.nodesByRevision(ctx, mw.Name)
	if err != nil {
		return nil, err
	}
	h := &rolloutHistory{typeMeta: typed("RolloutHistory"), Namespace: mw.Namespace, Name: mw.Name, Revisions: []historyItem{}}
	update := hashOf(mw)
	for i := len(revisions) - 1; i >= 0; i-- {
		r := &revisions[i]
		if only != 0 && r.Spec.Revision != only {
			continue
		}
		hash := r.Labels[v1alpha1.LabelRevision]
		item := historyItem{
			Revision: r.Spec.Revision, Hash: hash, Nodes: nodes[hash], RolledOut: r.Spec.RolledOut, Update: hash == update,
			CreationTimestamp: r.CreationTimestamp, ChangeCause: r.Annotations[annotationChangeCause],
		}
		user, err := revision.User(&r.Spec)
		switch {
		case err == nil:
			item.ChangeCause = cmp.Or(item.ChangeCause, user.Annotations[annotationChangeCause])
		case only != 0:
			return nil, fmt.Errorf("read the user's template of revision %d: %w", r.Spec.Revision, err)
		default:
			item.Unreadable = err.Error()
		}
		if item.Update && item.ChangeCause == "" {
			item.ChangeCause = mw.Annotations[annotationChangeCause]
		}
		if only != 0 {
			item.Template = user
		}
		h.Revisions = append(h.Revisions, item)
	}
	if only != 0 && len(h.Revisions) == 0 {
		return nil, fmt.Errorf("unable to find the specified revision %d of managedworkload %q", only, mw.Name)
	}
	return h, nil
}

func (h *rolloutHistory) print(a *app) error {
	p := terminal.New(a.Out)
	if len(h.Revisions) == 0 {
		p.Printf("No rollout history found.\n")
		return p.Err()
	}
	p.Printf("managedworkload.managedworkload.dev/%s\n", h.Name)
	table := tabwriter.NewWriter(a.Out, 0, 0, 3, ' ', 0)
	rows := terminal.Printer{W: table}
	rows.Printf("REVISION\tHASH\tNODES\tROLLED-OUT\tAGE\tCHANGE-CAUSE\n")
	for _, r := range h.Revisions {
		cause, mark := r.ChangeCause, ""
		if cause == "" {
			cause = "<none>"
		}
		if r.Update {
			mark = "*"
		}
		age, _ := ageOf(r.CreationTimestamp.Time, a.now())
		rows.Printf("%d%s\t%s\t%d\t%t\t%s\t%s\n", r.Revision, mark, r.Hash, r.Nodes, r.RolledOut, age, cause)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	p.Printf("* is the revision of spec.template.\n")
	for _, r := range h.Revisions {
		if r.Unreadable != "" {
			p.Printf("Revision %d cannot be read: %s\n", r.Revision, r.Unreadable)
		}
	}
	return p.Err()
}

func (h *rolloutHistory) printTemplate(p *terminal.Printer) error {
	r := &h.Revisions[0]
	text, err := yaml.Marshal(r.Template)
	if err != nil {
		return err
	}
	p.Printf("managedworkload.managedworkload.dev/%s with revision #%d\nPod Template:\n", h.Name, r.Revision)
	_, err = p.W.Write(text)
	return err
}
