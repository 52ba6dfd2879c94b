// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what a run has measured.
type Report struct {
	Nodes        int     `json:"nodes"`
	Workloads    int     `json:"workloads"`
	WatchPerNode bool    `json:"watchPerNode"`
	Phases       []Phase `json:"phases"`
}

// writeJSON writes a report for programs.
func (r *Report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeTable writes a report for people.
func (r *Report) writeTable(w io.Writer) error {
	watches := "one watch for all nodes"
	if r.WatchPerNode {
		watches = "a watch for each node"
	}
	all := r.Nodes * r.Workloads
	put(w, "%d nodes, %d workloads, %d NodeWorkloads, %s\n\n", r.Nodes, r.Workloads, all, watches)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	put(table, "PHASE\tTOOK s\tCPU s: MANAGER\tAPISERVER\tETCD\tPEAK MB: MANAGER\tAPISERVER\tETCD\tLATENCY ms: P50\tP99\tMAX\t(n)\n")
	for i := range r.Phases {
		p := &r.Phases[i]
		put(table, "%s\t%.1f", p.Name, p.Seconds)
		for _, program := range programs {
			put(table, "\t%.2f", p.CPU[program])
		}
		for _, program := range programs {
			put(table, "\t%d", p.Peak[program])
		}
		if l := p.Latency; l != nil && l.Count > 0 {
			put(table, "\t%d\t%d\t%d\t%d", l.P50, l.P99, l.Max, l.Count)
		}
		put(table, "\n")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	put(w, "\n")
	for i := range r.Phases {
		r.Phases[i].writeDetails(w, all)
	}
	return nil
}

// writeDetails writes what else a phase has shown.
func (p *Phase) writeDetails(w io.Writer, nodeWorkloads int) {
	put(w, "%s\n", p.Name)
	for _, r := range p.Results {
		put(w, "  %s: %s\n", r.Name, strings.TrimSpace(fmt.Sprintf("%.4g %s", r.Value, r.Unit)))
	}
	per, unit := 1., ""
	if p.Name == "start" {
		per, unit = float64(nodeWorkloads), " for each NodeWorkload"
	}
	put(w, "  requests%s: %s\n", unit, list(p.Requests, per))
	put(w, "  of the manager%s: %s\n", unit, list(p.Manager, per))
}

// list names counts, divided by per, those that round to nothing left out.
func list(counts map[string]float64, per float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := fmt.Sprintf("%.3g", counts[name]/per); counts[name]/per >= .01 {
			parts = append(parts, n+" "+name)
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// put writes; the output may be closed.
func put(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
