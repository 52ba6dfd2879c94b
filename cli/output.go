// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The formats of output beside text.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatHTML = "html"
	formatName = "name"
)

// outputVersion is that of the objects that -o json and -o yaml print. Fields are added to
// it, never changed.
const outputVersion = "cli.managedworkload.dev/v1"

// typeMeta begins each of these objects.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func typed(kind string) typeMeta { return typeMeta{outputVersion, kind} }

// outputFlag adds -o with the formats of a command.
func outputFlag(cmd *cobra.Command, into *string, formats ...string) {
	cmd.Flags().StringVarP(into, "output", "o", "", "Output format: "+strings.Join(formats, " or ")+"; text if not given")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *into != "" && !slices.Contains(formats, *into) {
			return fmt.Errorf("--output must be %s, not %q", strings.Join(formats, " or "), *into)
		}
		return nil
	}
}

// write prints an object as JSON or YAML.
func write(w io.Writer, format string, object any) error {
	encode := func(v any) ([]byte, error) {
		data, err := json.MarshalIndent(v, "", "  ")
		return append(data, '\n'), err
	}
	if format == formatYAML {
		encode = yaml.Marshal
	}
	data, err := encode(object)
	if err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	_, err = w.Write(data)
	return err
}
