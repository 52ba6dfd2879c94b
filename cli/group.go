// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// refuseUnknown makes a sub-command that does not exist an error, also where cobra would print
// the help and succeed: below the root, and for the commands that cobra adds itself.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				found, rest, err := cmd.Root().Find(args)
				if err != nil || !found.HasSubCommands() {
					return err
				}
				return unknownCommand(found, rest)
			}
		case cmd.HasSubCommands():
			cmd.Args = unknownCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// unknownCommand refuses the arguments of a group of commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := ""
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		text = "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), text)
}
