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
	// Waiting is what keeps the workload or a node from being as it should, and which nodes are drained.
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
	cmd.Flags().StringVar(&s.filter.Node, "node", "", "Show only this node")
	cmd.Flags().StringVarP(&s.filter.Container, "container", "c", "", "Show only containers with this name")
	cmd.Flags().DurationVar(&s.since, "since", 0, "Show only what is newer than this, such as 2h; 0 for all")
	cmd.Flags().IntVar(&s.filter.Limit, "limit", limit, "Show at most this many, the newest first; 0 for all")
}

func (s *selection) of(found share, now time.Time) (selected []ends.End, left ends.Omitted) {
	f := s.filter
	if s.since > 0 {
		f.Since = now.Add(-s.since)
	}
	all := ends.Collect(found.mw, found.nodes)
	selected, left = f.Select(all)
	left.NotKept = ends.NotKept(found.nodes, all, f.Node)
	return selected, left
}

func (a *app) whyCommand() *cobra.Command {
	var output string
	var selected selection
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why containers were killed or exited, on all nodes",
		Long: `Say what keeps a ManagedWorkload from being ready, which nodes are drained and so run nothing
of it, and why its containers were killed or exited on all nodes, the newest first: who
asked, which grace period there was and how much of it was used, what the preStop hook did,
which signal was sent, and how it ended. NAME is a ManagedWorkload or a NodeWorkload;
nw/NAME is a NodeWorkload.
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
			age, ahead := ageOf(wait.Since.Time, now)
			p.Printf(" (since %s%s)", age, ahead)
		}
		p.Printf("\n")
	}
	if len(w.Waiting) > 0 {
		p.Printf("\n")
	}
	if len(w.Ends) == 0 && w.Older == 0 {
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
	ago := "at an unknown time"
	if !e.Time.IsZero() {
		age, ahead := ageOf(e.Time.Time, now)
		ago = age + " ago" + ahead
	}
	p.Printf("%s  %s  %s: %s\n", p.Paint(terminal.Bold, e.Container), e.Node, ago, p.Paint(colourOf(e), e.Summary))
	for _, words := range e.Words {
		p.Printf("    %s\n", words)
	}
	if !e.Time.IsZero() {
		p.Printf("    %s\n", p.Paint(terminal.Faint, e.Time.UTC().Format(time.RFC3339)+" on "+clockOf(e)))
	}
}

// clockOf names the clock that an end's time is from.
func clockOf(e *ends.End) string {
	if e.Kill != nil && !e.Time.Equal(&e.Kill.StartTime) {
		return "the manager's clock; that of node " + e.Node + " said " + e.Kill.StartTime.UTC().Format(time.RFC3339)
	}
	return "the clock of node " + e.Node
}

// clockTolerance is how far a clock may be ahead until that is said.
const clockTolerance = time.Minute

// ageOf is how long ago a time on some node's clock was, in kubectl's form, and a remark if
// that clock is far ahead of the one here.
func ageOf(t, now time.Time) (age, ahead string) {
	passed := now.Sub(t)
	if passed < -clockTolerance {
		ahead = ", on a clock that is ahead"
	}
	return duration.HumanDuration(max(passed, 0)), ahead
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
