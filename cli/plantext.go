// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/managedworkload/managedworkload/cli/forecast"
	"github.com/managedworkload/managedworkload/cli/terminal"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// How much of a long list the text names.
const (
	mostNodes   = 8
	mostBatches = 10
)

// waits say in words why a node waits.
var waits = map[rollout.Reason]string{
	rollout.WaitPaused:       "spec.paused is set",
	rollout.WaitOnDelete:     "OnDelete: when its NodeWorkload is deleted",
	rollout.WaitNodeSelector: "the node lacks the labels of rollingUpdate.nodeSelector",
	rollout.WaitPartition:    "rollingUpdate.partition keeps it",
	rollout.WaitBudget:       "maxUnavailable is used up by nodes that are not available",
	rollout.WaitShim:         "its shim does not respond",
	rollout.WaitNoShim:       "it never had a shim",
	rollout.WaitBlocked:      "another object has the name of its NodeWorkload",
	rollout.WaitEnding:       "its NodeWorkload is being deleted",
	rollout.WaitRevision:     "the revision that it should get is gone",
	rollout.WaitQuota:        "a ResourceQuota has no room for it",
	rollout.WaitBatch:        "in a later batch",
}

// print says what would happen: the sum, each kind of change with its nodes, the batches,
// and who waits.
func (a *planAnswer) print(p *terminal.Printer) error {
	p.Printf("managedworkload.managedworkload.dev/%s: %s\n", a.Name, p.Paint(terminal.Bold, a.sum()))
	for _, g := range group(a.Forecast) {
		p.Printf("\n%s:\n", p.Paint(terminal.Bold, g.title()))
		if len(g.change.Kills) == 0 {
			p.Printf("  %s\n", p.Paint(terminal.Green, "no kill"))
		}
		for i := range g.change.Kills {
			p.Printf("  %s %s\n", p.Paint(terminal.Red, "kill"), killText(&g.change.Kills[i]))
		}
	}
	a.printBatches(p)
	a.printWaiting(p)
	for _, note := range a.Notes {
		p.Printf("\nNote: %s\n", note)
	}
	return p.Err()
}

func (a *planAnswer) sum() string {
	nodes := len(a.Ends)
	for _, batch := range a.Batches {
		nodes += len(batch)
	}
	switch {
	case nodes == 0:
		return "no node would change"
	case a.Kills == 0:
		return fmt.Sprintf("no container would be killed; %s would change in %s", count(nodes, "node"), count(len(a.Batches), "batch"))
	}
	return fmt.Sprintf("%s would be killed; %s would change in %s", count(a.Kills, "container"), count(nodes, "node"), count(len(a.Batches), "batch"))
}

func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// nodeGroup are nodes to which the same happens.
type nodeGroup struct {
	change *forecast.NodeChange
	nodes  []string
}

func group(f *forecast.Forecast) []*nodeGroup {
	var groups []*nodeGroup
	at := map[string]*nodeGroup{}
	for _, changes := range append([][]forecast.NodeChange{f.Ends}, f.Batches...) {
		for i := range changes {
			c := &changes[i]
			g := at[c.Key()]
			if g == nil {
				g = &nodeGroup{change: c}
				at[c.Key()], groups = g, append(groups, g)
			}
			g.nodes = append(g.nodes, c.Node)
		}
	}
	return groups
}

func (g *nodeGroup) title() string {
	slices.Sort(g.nodes)
	nodes := "On " + names(g.nodes)
	switch c := g.change; {
	case c.To == "":
		return nodes + " the workload would end at once (" + c.Reason + ")"
	case c.From == "":
		return nodes + " the workload would start with revision " + c.To
	case c.From == c.To:
		return nodes + ", which run revision " + c.To + " already"
	default:
		return nodes + ", from revision " + c.From + " to " + c.To
	}
}

func names(list []string) string {
	text := strings.Join(list[:min(len(list), mostNodes)], ", ")
	if more := len(list) - mostNodes; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func killText(k *forecast.Kill) string {
	text := fmt.Sprintf("%s: %s", k.Container, k.Trigger)
	if len(k.Changed) > 0 {
		text += " (" + strings.Join(k.Changed, ", ") + ")"
	}
	text += fmt.Sprintf("; grace %ds (%s)", k.GraceSeconds, k.GraceSource)
	if k.PreStop != "" {
		text += "; preStop " + k.PreStop
	}
	return text
}

func (a *planAnswer) printBatches(p *terminal.Printer) {
	if len(a.Batches) == 0 {
		return
	}
	p.Printf("\n%s\n", p.Paint(terminal.Bold, "Batches, each when the nodes before are available:"))
	for i, batch := range a.Batches {
		if i == mostBatches {
			p.Printf("  and %d more; -o json has all\n", len(a.Batches)-mostBatches)
			return
		}
		var nodes []string
		for j := range batch {
			nodes = append(nodes, batch[j].Node)
		}
		p.Printf("  %d. %s\n", i+1, names(nodes))
	}
}

func (a *planAnswer) printWaiting(p *terminal.Printer) {
	byReason := map[rollout.Reason][]string{}
	var order []rollout.Reason
	for _, w := range a.Waiting {
		if byReason[w.Reason] == nil {
			order = append(order, w.Reason)
		}
		byReason[w.Reason] = append(byReason[w.Reason], w.Node)
	}
	for i, reason := range order {
		if i == 0 {
			p.Printf("\n%s\n", p.Paint(terminal.Bold, "Without the update:"))
		}
		p.Printf("  %s: %s (%s)\n", names(byReason[reason]), waits[reason], string(reason))
	}
}
