// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/managedworkload/managedworkload/cli/terminal"
	"github.com/managedworkload/managedworkload/cli/timeline"
)

// timelineAnswer is what timeline prints as JSON or YAML.
type timelineAnswer struct {
	typeMeta
	*timeline.Timeline
}

func (a *app) timelineCommand() *cobra.Command {
	var output string
	var selected selection
	cmd := &cobra.Command{
		Use:   "timeline NAME",
		Short: "Draw the kills and exits, one lane a container",
		Long: `Draw the kills and exits of all containers on all nodes, one lane a container: trigger,
preStop hook, signal, how much of the grace period was used and left, and whether the
container was forced. -o html writes one page with the picture, which needs no network.
NAME is a ManagedWorkload or a NodeWorkload; nw/NAME is a NodeWorkload.
` + exitCodes,
		Example: "  kubectl mw timeline web -o html > web.html",
		Args:    cobra.ExactArgs(1),
	}
	outputFlag(cmd, &output, formatJSON, formatYAML, formatHTML)
	selected.addFlags(cmd, 200)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		found, err := c.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		all, left := selected.of(found, a.now())
		t := timeline.New(c.namespace, found.name(), all, left, a.now())
		switch output {
		case "":
			return t.WriteText(terminal.New(a.Out))
		case formatHTML:
			return t.WriteHTML(a.Out)
		}
		return write(a.Out, output, &timelineAnswer{typed("Timeline"), t})
	}
	return cmd
}
