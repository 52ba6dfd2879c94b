// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// dryRunFlag adds --dry-run, which without a value is client; help says what it does.
func dryRunFlag(cmd *cobra.Command, into *string, help string) {
	cmd.Flags().StringVar(into, "dry-run", "none", "none, server or client: "+help)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "client"
}

// checkDryRun returns an error that names the flag.
func checkDryRun(value string) error {
	switch value {
	case "none", "server", "client":
		return nil
	}
	return fmt.Errorf("--dry-run must be none, server or client, not %q", value)
}
