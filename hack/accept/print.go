// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

func printJSON(w io.Writer, verdicts []verdict) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(verdicts)
}

// printTable prints a row for each template and a line for each thing said of it.
func printTable(out io.Writer, verdicts []verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TEMPLATE\tVERDICT\tFIELD\tADVICE") // Flush has the error
	refused := 0
	for _, v := range verdicts {
		word := "accepted"
		if len(v.Refused) > 0 {
			refused++
			word = "refused"
		}
		for i, line := range lines(v) {
			name := v.Template
			if i > 0 {
				name, word = "", ""
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, word, line.Path, line.Message)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d accepted, %d refused\n", len(verdicts)-refused, refused)
	return err
}

// lines are at least one.
func lines(v verdict) []refusal {
	list := v.Refused
	for _, path := range v.Ignored {
		list = append(list, refusal{path, "ignored"})
	}
	for _, text := range v.Warnings {
		list = append(list, refusal{"", "warning: " + text})
	}
	if len(list) == 0 {
		list = []refusal{{}}
	}
	return list
}
