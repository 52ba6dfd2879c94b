// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Watch, undo, pause, resume and restart roll-outs",
		Long:  "Watch, undo, pause, resume and restart roll-outs, as kubectl rollout does for a DaemonSet.\n" + exitCodes,
	}
	cmd.AddCommand(a.statusCommand(), a.historyCommand(), a.undoCommand(),
		a.pauseCommand("pause", true), a.pauseCommand("resume", false), a.restartCommand())
	return cmd
}
