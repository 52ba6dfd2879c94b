// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// topOptions are the flags of top.
type topOptions struct {
	output, sortBy            string
	containers, all, noHeader bool
}

func (o *topOptions) addFlags(cmd *cobra.Command) {
	outputFlag(cmd, &o.output, formatJSON, formatYAML)
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", "Sort by cpu or memory, the largest first; by name if not given")
	cmd.Flags().BoolVar(&o.noHeader, "no-headers", false, "Print no headers")
	formats := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"", "cpu", "memory"}, o.sortBy) {
			return fmt.Errorf("--sort-by must be cpu or memory, not %q", o.sortBy)
		}
		return formats(cmd, args)
	}
}

const topLong = `
Shims report it each minute, and the manager keeps the newest report of each node for three
minutes: a workload that has just started is shown a minute later. It takes the component
objects (config/components/objects), by which the manager serves an API of its own.
The disk is what containers have written into their root file systems: without their logs
and emptyDir volumes, which a limit of ephemeral-storage counts too.
` + exitCodes

func (a *app) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what nodes and workloads use of CPU, memory and disk",
		Long:  "Show what nodes and workloads use of CPU, memory and disk.\n" + topLong,
	}
	cmd.AddCommand(a.topWorkloadCommand(), a.topNodeCommand())
	return cmd
}

func (a *app) topWorkloadCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:     "workload [NAME]",
		Aliases: []string{"workloads", "mw", "managedworkload", "managedworkloads"},
		Short:   "Show what workloads use on each node",
		Long: `Show what the ManagedWorkloads of a namespace use on each node, or one of them: CPU and working
set with that of the sandbox, and what containers have written into their root file systems.
` + topLong,
		Args: cobra.MaximumNArgs(1),
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.containers, "containers", false, "Show each container")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Show the workloads of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.all && len(args) > 0 {
			return fmt.Errorf("a workload cannot be named together with --all-namespaces")
		}
		name := ""
		if len(args) > 0 {
			var err error
			if name, err = nameOf(args[0]); err != nil {
				return err
			}
		}
		list, err := a.workloadUsages(cmd.Context(), o.all)
		if err != nil {
			return err
		}
		list.Items = slices.DeleteFunc(list.Items, func(u v1alpha1.WorkloadUsage) bool {
			return name != "" && u.WorkloadName != name && u.Name != name
		})
		sortUsages(list.Items, o.sortBy, func(u *v1alpha1.WorkloadUsage) corev1.ResourceList { return u.Usage },
			func(u *v1alpha1.WorkloadUsage) string { return u.Namespace + "/" + u.WorkloadName + "/" + u.NodeName })
		if o.output != "" {
			return write(a.Out, o.output, list)
		}
		if len(list.Items) == 0 {
			terminal.New(a.ErrOut).Printf("No usage is known yet.\n")
			return nil
		}
		return a.table(workloadRows(list.Items, &o), o.noHeader)
	}
	return cmd
}

// workloadRows begin with the headers.
func workloadRows(items []v1alpha1.WorkloadUsage, o *topOptions) [][]string {
	header := []string{"NAME", "NODE"}
	if o.all {
		header = slices.Insert(header, 0, "NAMESPACE")
	}
	if o.containers {
		header = append(header, "CONTAINER")
	}
	rows := [][]string{append(header, "CPU(cores)", "MEMORY(bytes)", "DISK(bytes)")}
	for i := range items {
		u := &items[i]
		begin := []string{cmp.Or(u.WorkloadName, u.Name), u.NodeName}
		if o.all {
			begin = slices.Insert(begin, 0, u.Namespace)
		}
		if !o.containers {
			rows = append(rows, append(begin, figures(u.Usage, true)...))
			continue
		}
		for j := range u.Containers {
			c := &u.Containers[j]
			rows = append(rows, append(append(slices.Clone(begin), c.Name), figures(c.Usage, true)...))
		}
	}
	return rows
}

func (a *app) topNodeCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:     "node [NAME]",
		Aliases: []string{"nodes", "no"},
		Short:   "Show what nodes use, and their NodeWorkloads of it",
		Long:    "Show what nodes use as a whole, and what their NodeWorkloads use of it together.\n" + topLong,
		Args:    cobra.MaximumNArgs(1),
	}
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := a.nodeUsages(cmd.Context())
		if err != nil {
			return err
		}
		if len(args) > 0 {
			name := strings.TrimPrefix(args[0], "node/")
			list.Items = slices.DeleteFunc(list.Items, func(u v1alpha1.NodeUsage) bool { return u.Name != name })
		}
		sortUsages(list.Items, o.sortBy, func(u *v1alpha1.NodeUsage) corev1.ResourceList { return u.Usage }, func(u *v1alpha1.NodeUsage) string { return u.Name })
		if o.output != "" {
			return write(a.Out, o.output, list)
		}
		if len(list.Items) == 0 {
			terminal.New(a.ErrOut).Printf("No usage is known yet.\n")
			return nil
		}
		rows := [][]string{{"NAME", "CPU(cores)", "MEMORY(bytes)", "MANAGED-CPU(cores)", "MANAGED-MEMORY(bytes)"}}
		for i := range list.Items {
			u := &list.Items[i]
			rows = append(rows, append(append([]string{u.Name}, figures(u.Usage, false)...), figures(u.Managed, false)...))
		}
		return a.table(rows, o.noHeader)
	}
	return cmd
}

// sortUsages sorts by what is used, the largest first, or by name.
func sortUsages[T any](items []T, by string, usage func(*T) corev1.ResourceList, name func(*T) string) {
	slices.SortStableFunc(items, func(a, b T) int {
		if by != "" {
			of, other := usage(&a)[corev1.ResourceName(by)], usage(&b)[corev1.ResourceName(by)]
			if c := other.Cmp(of); c != 0 {
				return c
			}
		}
		return cmp.Compare(name(&a), name(&b))
	})
}

// figures are in the units of kubectl top.
func figures(usage corev1.ResourceList, disk bool) []string {
	const mebi = 1 << 20
	shown := []string{fmt.Sprintf("%dm", usage.Cpu().MilliValue()), fmt.Sprintf("%dMi", usage.Memory().Value()/mebi)}
	if disk {
		shown = append(shown, fmt.Sprintf("%dMi", usage.StorageEphemeral().Value()/mebi))
	}
	return shown
}

// table prints columns as kubectl does.
func (a *app) table(rows [][]string, noHeader bool) error {
	if noHeader {
		rows = rows[1:]
	}
	widths := make([]int, 8)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	p := terminal.New(a.Out)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s   ", widths[i], cell)
		}
		p.Printf("%s\n", strings.TrimRight(line.String(), " "))
	}
	return p.Err()
}
