// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// drainOptions are the flags of drain.
type drainOptions struct {
	output  string
	dryRun  string
	timeout time.Duration
}

func (o *drainOptions) dry() bool { return o.dryRun != "none" }

func (a *app) drainCommand() *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "End the NodeWorkloads of a node, with grace and in order",
		Long: `End the NodeWorkloads of a node, those of the lowest priority first, each with its own grace
period; the next priority begins when all of one are gone. The node gets the taint
` + v1alpha1.TaintDrain + `, which keeps new ones away until undrain; Pods are not affected. What has a
toleration with that key stays, and so does what runs from a file of the node.
Look at it with --dry-run=client first.

This needs the rights to get and patch nodes, and to list, watch and delete nodeworkloads and get
managedworkloads in all namespaces.

Exit codes: 0 all that had to end is gone; 1 something is left after --timeout, or would have to
end (with --dry-run); 2 error.`,
		Args: cobra.ExactArgs(1),
	}
	outputFlag(cmd, &o.output, formatJSON, formatYAML)
	checkOutput := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := checkDryRun(o.dryRun); err != nil {
			return err
		}
		return checkOutput(cmd, args)
	}
	dryRunFlag(cmd, &o.dryRun, "end nothing, and ask the API server whether it would let you or not")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "How long to wait until all are gone, such as 5m; 0 has no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.drain(cmd.Context(), args[0], o) }
	return cmd
}

func (a *app) drain(ctx context.Context, node string, o drainOptions) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	p := terminal.New(a.Out)
	d := &drain{
		cluster: c, drainOptions: o, node: node, known: map[types.UID]*drained{},
		report: drainReport{typeMeta: typed("Drain"), Node: node, Workloads: []*drained{}},
	}
	if o.dry() {
		d.report.DryRun = o.dryRun
	}
	d.progress = func(w *drained) {
		if o.output == "" {
			w.print(p)
		}
	}
	err = d.run(ctx)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.timedOut()
	case err != nil:
		return err
	}
	return d.finish(a, p)
}

// drain ends the NodeWorkloads of a node.
type drain struct {
	*cluster
	drainOptions
	node     string
	report   drainReport
	progress func(*drained)
	// priorities are those of the priority classes.
	priorities map[string]int32
	// known are the NodeWorkloads of the report.
	known map[types.UID]*drained
	// looked is the resourceVersion of the last look: a watch from there misses no end, however fast.
	looked string
}

func (d *drain) run(ctx context.Context) error {
	if err := d.taint(ctx, v1alpha1.TaintDrainHold); err != nil {
		return err
	}
	d.priorities = d.classes(ctx)
	// What the manager made before it saw the taint is found by a later look.
	for {
		left, err := d.look(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if d.dry() {
			return d.endDry(ctx, left)
		}
		higher := slices.IndexFunc(left, func(w *drained) bool { return w.Priority != left[0].Priority })
		if higher > 0 {
			left = left[:higher]
		}
		if err := d.end(ctx, left); err != nil {
			return err
		}
		if err := d.await(ctx, left); err != nil {
			return err
		}
	}
	d.report.Complete = !d.dry()
	return d.taint(ctx, "")
}

// endDry says what would end.
func (d *drain) endDry(ctx context.Context, left []*drained) error {
	if d.dryRun == "server" {
		if err := d.end(ctx, left, client.DryRunAll); err != nil {
			return err
		}
	}
	for _, w := range left {
		d.progress(w)
	}
	return nil
}

// end asks for the end of NodeWorkloads.
func (d *drain) end(ctx context.Context, group []*drained, options ...client.DeleteOption) error {
	for _, w := range group {
		if w.deleting {
			continue
		}
		nw := &v1alpha1.NodeWorkload{}
		nw.Namespace, nw.Name = w.Namespace, w.Name
		err := d.Delete(ctx, nw, append(slices.Clone(options), client.Preconditions{UID: &w.uid})...)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("end NodeWorkload %s/%s: %w", w.Namespace, w.Name, err)
		}
	}
	return nil
}

func (a *app) undrainCommand() *cobra.Command {
	var dryRun string
	cmd := &cobra.Command{
		Use:   "undrain NODE",
		Short: "Let a drained node run NodeWorkloads again",
		Long:  "Remove the taint " + v1alpha1.TaintDrain + " from a node: the manager makes its NodeWorkloads again.\n" + exitCodes,
		Args:  cobra.ExactArgs(1),
	}
	dryRunFlag(cmd, &dryRun, "change nothing, and ask the API server or not")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkDryRun(dryRun); err != nil {
			return err
		}
		c, err := a.connect()
		if err != nil {
			return err
		}
		d := &drain{cluster: c, drainOptions: drainOptions{dryRun: dryRun}, node: args[0]}
		changed, err := d.retaint(cmd.Context(), func(corev1.Taint) bool { return false }, nil)
		if err != nil {
			return err
		}
		done := map[bool]string{true: "undrained", false: "not drained"}[changed]
		terminal.New(a.Out).Printf("node/%s %s%s\n", args[0], done, map[string]string{"server": " (server dry run)", "client": " (dry run)"}[dryRun])
		return nil
	}
	return cmd
}

// taint has the node's one taint of a drain, with a value.
func (d *drain) taint(ctx context.Context, value string) error {
	wanted := corev1.Taint{Key: v1alpha1.TaintDrain, Value: value, Effect: corev1.TaintEffectPreferNoSchedule}
	// One that a person has set with another effect stays as it is, once all are gone.
	_, err := d.retaint(ctx, func(t corev1.Taint) bool { return t.Effect != wanted.Effect }, &wanted)
	return err
}

// retaint keeps some of the taints of a drain and adds one, nil for none.
func (d *drain) retaint(ctx context.Context, keep func(corev1.Taint) bool, add *corev1.Taint) (changed bool, err error) {
	node := &corev1.Node{}
	if err := d.Get(ctx, client.ObjectKey{Name: d.node}, node); err != nil {
		return false, err
	}
	base := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDrain && !keep(t) })
	if add != nil {
		node.Spec.Taints = append(node.Spec.Taints, *add)
	}
	changed = !equality.Semantic.DeepEqual(node.Spec.Taints, base.Spec.Taints)
	if !changed || d.dryRun == "client" {
		return changed, nil
	}
	options := []client.PatchOption{client.FieldOwner(defaultFieldManager)}
	if d.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := d.Patch(ctx, node, patch, options...); err != nil {
		return false, fmt.Errorf("taint the node: %w", err)
	}
	return true, nil
}
