// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/forecast"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// planOptions are the flags of plan.
type planOptions struct {
	file, output       string
	serverSide, forced bool
	fieldManager       string
	managerNamespace   string
}

func (a *app) planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Say what applying a changed file would kill, on which nodes and in which batches",
		Long: `Say what kubectl apply -f FILE would do to the nodes: which containers it would kill and
why, with which grace period, in which batches, and which nodes would wait and why. The API
server is asked by a dry run, with its webhooks: where it refuses the file, that is the answer.
Another dry run, of a Pod, says what admission adds to the template, such as a service account
token. Nothing is changed. Every ManagedWorkload of the file is planned; other objects are named and
left out.

It is assumed that each node becomes available with the change, and that what the last status
of a NodeWorkload reports still runs; a note names the nodes on which a KillRequest keeps
containers stopped. Whether ConfigMaps and Secrets are there, images can be pulled, and ResourceQuotas
leave room for each node is not looked at: a node that lacks one kills nothing and waits. Listing Nodes and the Leases of the shims needs rights of
its own; without them placement is not checked, and each node is taken to have a shim, which
a note says.

Exit codes, as of kubectl diff: 0 nothing would be killed; 1 something would; 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), o) },
	}
	outputFlag(cmd, &o.output, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "File with ManagedWorkloads as YAML or JSON; - is standard input")
	cmd.Flags().BoolVar(&o.serverSide, "server-side", false, "As kubectl apply --server-side would")
	cmd.Flags().BoolVar(&o.forced, "force-conflicts", false, "With --server-side, force the changes against conflicts")
	cmd.Flags().StringVar(&o.fieldManager, "field-manager", "", "Name of the manager that would apply; kubectl's if not given")
	cmd.Flags().StringVar(&o.managerNamespace, "manager-namespace", v1alpha1.DefaultNamespace, "Namespace of the manager, where the Leases of the shims are")
	return cmd
}

// planAnswer is what plan prints.
type planAnswer struct {
	typeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// New: the ManagedWorkload does not exist yet.
	New bool `json:"new"`
	*forecast.Forecast
}

// planList are the answers about a file with several ManagedWorkloads.
type planList struct {
	typeMeta
	Items []*planAnswer `json:"items"`
}

func (a *app) plan(ctx context.Context, o planOptions) error {
	if o.file == "" {
		return errors.New("give -f FILE")
	}
	data, err := a.readFile(o.file)
	if err != nil {
		return err
	}
	wanted, others, err := choose(data, "a ManagedWorkload", (*document).isWorkload)
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	warn := terminal.New(a.ErrOut)
	for _, other := range others {
		warn.Printf("%s: %s; not planned\n", o.file, other)
	}
	answers, err := a.planAll(ctx, c, wanted, o)
	if errPrint := a.printPlans(answers, o.output, len(wanted) > 1); errPrint != nil {
		return errPrint
	}
	for _, answer := range answers {
		if err == nil && answer.Kills > 0 {
			err = errNo{}
		}
	}
	return err
}

// planAll plans each ManagedWorkload; what is wrong with one keeps no other from its answer.
func (a *app) planAll(ctx context.Context, c *cluster, wanted []document, o planOptions) ([]*planAnswer, error) {
	around, err := c.surroundings(ctx, o.managerNamespace)
	if err != nil {
		return nil, err
	}
	var answers []*planAnswer
	var errs []error
	for i := range wanted {
		answer, err := a.planOne(ctx, *c, &wanted[i], &around, o)
		switch {
		case err == nil:
			answers = append(answers, answer)
		case len(wanted) == 1:
			return nil, err
		default:
			errs = append(errs, fmt.Errorf("%s: %w", wanted[i].where, err))
		}
	}
	return answers, errors.Join(errs...)
}

func (a *app) planOne(ctx context.Context, c cluster, d *document, around *surroundings, o planOptions) (*planAnswer, error) {
	wanted, err := c.decode(d, a.flags.Namespace != nil && *a.flags.Namespace != "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	c.namespace = wanted.GetNamespace()
	after, isNew, err := c.applied(ctx, wanted, o)
	if err != nil {
		return nil, err
	}
	result, err := c.forecast(ctx, after, around, forecast.Input{Now: a.now()})
	if err != nil {
		return nil, err
	}
	return &planAnswer{typed("Plan"), after.Namespace, after.Name, isNew, result}, nil
}

// printPlans prints one answer as it is, and several as a list.
func (a *app) printPlans(answers []*planAnswer, output string, several bool) error {
	switch {
	case len(answers) == 0:
		return nil
	case output != "" && several:
		return write(a.Out, output, &planList{typed("PlanList"), answers})
	case output != "":
		return write(a.Out, output, answers[0])
	}
	p := terminal.New(a.Out)
	for i, answer := range answers {
		if i > 0 {
			p.Printf("\n")
		}
		if err := answer.print(p); err != nil {
			return err
		}
	}
	return p.Err()
}
