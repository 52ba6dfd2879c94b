// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the table and what differs, and returns how many templates do.
func report(out io.Writer, opts options, results []result, took time.Duration) int {
	p := &printer{out: out}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := &printer{out: table}
	rows.printf("TEMPLATE\tABOUT\tKUBELET\tSHIM\tDIFFERENCES\n")
	failed, declared, retried := 0, map[string]int{}, 0
	for _, r := range results {
		verdict := "none"
		n := 0
		for name, count := range r.declared {
			declared[name] += count
			n += count
		}
		if n > 0 {
			verdict = fmt.Sprintf("none but %d declared", n)
		}
		if len(r.differences) > 0 {
			failed++
			verdict = fmt.Sprintf("%d", len(r.differences))
		}
		if r.retried > 0 {
			retried++
			verdict += fmt.Sprintf(" (try %d)", r.retried+1)
		}
		rows.printf("%s\t%s\t%s\t%s\t%s\n", r.scenario.name, r.scenario.trigger, inShort(r.kubelet), inShort(r.shim), verdict)
	}
	if err := table.Flush(); err != nil {
		p.err = cmp.Or(p.err, err)
	}
	for _, r := range results {
		if len(r.differences) == 0 {
			continue
		}
		p.printf("\n%s differs:\n", r.scenario.name)
		for _, d := range r.differences {
			p.printf("  %s\n    kubelet: %s\n    shim:    %s\n", d.aspect, cmp.Or(d.kubelet, "(nothing)"), cmp.Or(d.shim, "(nothing)"))
		}
	}
	chances(p, results)
	if opts.verbose {
		for _, r := range results {
			if len(r.differences) > 0 {
				history(p, "kubelet", r.kubelet)
				history(p, "shim", r.shim)
			}
		}
	}
	p.printf("\nDeclared differences, by name (see docs/kubelet-differences.md and hack/twin/declared.go):\n")
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		p.printf("  %4d  %s\n", declared[name], name)
	}
	p.printf("\n%d templates, seed %d, in %s; %d run again because something differed; templates with undeclared differences: %d\n",
		len(results), opts.seed, took.Round(time.Second), retried, failed)
	return failed
}

// printer keeps the first error of writing.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// inShort is one side of a pair in short: how every container ended.
func inShort(r *record) string {
	if r == nil {
		return ""
	}
	if r.failure != "" {
		return r.failure
	}
	codes := map[string][]string{}
	var names []string
	for _, l := range r.lives {
		if codes[l.container] == nil {
			names = append(names, l.container)
		}
		codes[l.container] = append(codes[l.container], fmt.Sprint(l.exitCode))
	}
	parts := []string{}
	for _, name := range names {
		parts = append(parts, name+":"+strings.Join(codes[name], ","))
	}
	if kill := terminationLength(r); kill > 0 {
		parts = append(parts, fmt.Sprintf("killed in %.1fs", kill.Seconds()))
	}
	return strings.Join(parts, " ")
}

// terminationLength is how long the last container lived once it was deleted.
func terminationLength(r *record) time.Duration {
	var longest time.Duration
	for _, l := range r.lives {
		longest = max(longest, l.ended.Sub(r.asked))
	}
	return longest
}

// history prints what the API said one after the other.
func history(p *printer, side string, r *record) {
	p.printf("\nhistory on the %s:\n", side)
	for _, one := range r.history {
		p.printf("  %s deleting=%t %s", one.at.Format("15:04:05.00"), one.deleting, one.status.Phase)
		for _, c := range slices.Concat(one.status.InitContainerStatuses, one.status.ContainerStatuses) {
			state := "-"
			switch {
			case c.State.Running != nil:
				state = "running"
			case c.State.Terminated != nil:
				state = "terminated " + c.State.Terminated.Reason
			case c.State.Waiting != nil:
				state = "waiting " + c.State.Waiting.Reason
			}
			p.printf("; %s#%d %s ready=%t", c.Name, c.RestartCount, state, c.Ready)
		}
		p.printf("\n")
	}
}

// chances prints what was not the same in one run and the same in the next.
func chances(p *printer, results []result) {
	p.printf("\nDiffered once and not again (chance, on either side):\n")
	for _, r := range results {
		for _, d := range r.chance {
			p.printf("  %s: %s: kubelet %s, shim %s\n", r.scenario.name, d.aspect, cmp.Or(d.kubelet, "(nothing)"), cmp.Or(d.shim, "(nothing)"))
		}
	}
}
