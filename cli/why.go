// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/ends"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// whyAnswer is what why prints.
type whyAnswer struct {
	typeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Waiting is what keeps the workload or a node from being as it should.
	Waiting []ends.Wait `json:"waiting"`
	// Ends are the kills and exits, the newest first.
	Ends []ends.End `json:"ends"`
	ends.Omitted
}

// selection are the flags that choose ends.
type selection struct {
	filter ends.Filter
	since  time.Duration
}

func (s *selection) addFlags(cmd *cobra.Command, limit int) {
	cmd.Flags().StringVar(&s.filter.Node, "node", "", "Only this node")
	cmd.Flags().StringVarP(&s.filter.Container, "container", "c", "", "Only containers of this name")
	cmd.Flags().DurationVar(&s.since, "since", 0, "Only what is newer than this, such as 2h; 0 for all")
	cmd.Flags().IntVar(&s.filter.Limit, "limit", limit, "At most so many, the newest; 0 for all")
}

func (s *selection) of(found share, now time.Time) (selected []ends.End, left ends.Omitted) {
	f := s.filter
	if s.since > 0 {
		f.Since = now.Add(-s.since)
	}
	all := ends.Collect(found.mw, found.nodes)
	left.NotKept = ends.NotKept(found.nodes, all, f.Node)
	selected, left.More = f.Select(all)
	return selected, left
}

func (a *app) whyCommand() *cobra.Command {
	var output string
	var selected selection
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why containers were killed or exited, on all nodes",
		Long: `Say what keeps a ManagedWorkload from being ready, and why its containers were killed or
exited on all nodes, the newest first: who asked, which grace period there was and how much
of it was used, what the preStop hook did, which signal was sent, and how it ended. NAME is
a ManagedWorkload or a NodeWorkload; nw/NAME is a NodeWorkload.
` + exitCodes,
		Args: cobra.ExactArgs(1),
	}
	outputFlag(cmd, &output, formatJSON, formatYAML)
	selected.addFlags(cmd, 20)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		found, err := c.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		answer := whyAnswer{typeMeta: typed("Why"), Namespace: c.namespace, Name: found.name(), Waiting: ends.Waits(found.mw, found.nodes, selected.filter.Node)}
		answer.Ends, answer.Omitted = selected.of(found, a.now())
		if output != "" {
			return write(a.Out, output, &answer)
		}
		return answer.print(terminal.New(a.Out), a.now())
	}
	return cmd
}

func (s *share) name() string {
	if s.mw != nil {
		return s.mw.Name
	}
	return s.nodes[0].Name
}

func (w *whyAnswer) print(p *terminal.Printer, now time.Time) error {
	for _, wait := range w.Waiting {
		p.Printf("%s  %s", p.Paint(terminal.Yellow, wait.Subject), wait.Text)
		if wait.Since != nil {
			p.Printf(" (since %s)", duration.HumanDuration(now.Sub(wait.Since.Time)))
		}
		p.Printf("\n")
	}
	if len(w.Waiting) > 0 {
		p.Printf("\n")
	}
	if len(w.Ends) == 0 {
		p.Printf("No kill or exit is recorded.\n")
	}
	for i := range w.Ends {
		printEnd(p, &w.Ends[i], now)
	}
	for _, sentence := range w.Sentences() {
		p.Printf("%s\n", sentence)
	}
	return p.Err()
}

func printEnd(p *terminal.Printer, e *ends.End, now time.Time) {
	p.Printf("%s  %s  %s ago: %s\n", p.Paint(terminal.Bold, e.Container), e.Node,
		duration.HumanDuration(now.Sub(e.Time.Time)), p.Paint(colourOf(e), e.Summary))
	for _, words := range e.Words {
		p.Printf("    %s\n", words)
	}
	p.Printf("    %s\n", p.Paint(terminal.Faint, e.Time.UTC().Format(time.RFC3339)+" on the clock of "+e.NodeWorkload))
}

// colourOf is red for what went wrong, green for what went as it should.
func colourOf(e *ends.End) terminal.Colour {
	switch {
	case e.Kill == nil:
		return terminal.Yellow
	case e.Kill.Phase != v1alpha1.KillPhaseDone:
		return terminal.Blue
	}
	switch e.Kill.Outcome {
	case v1alpha1.KillOutcomeForced, v1alpha1.KillOutcomeFailed:
		return terminal.Red
	case v1alpha1.KillOutcomeGraceful:
		return terminal.Green
	case v1alpha1.KillOutcomeAlreadyStopped:
	}
	return terminal.Yellow
}
