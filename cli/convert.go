// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/cli/convert"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// maxFile bounds what is read: the API server takes no object of 3 MiB.
const maxFile = 16 << 20

func (a *app) convertCommand() *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "convert {-f FILE | daemonset/NAME}",
		Short: "Make a ManagedWorkload of a DaemonSet",
		Long: `Print the ManagedWorkload that runs what a DaemonSet runs, as YAML on standard output.
What is dropped, what has no effect, and what the API server would refuse is on standard
error, and above the YAML as comments. The file may be what kubectl get, kubectl kustomize or
helm template print: every DaemonSet of it is converted, other objects are named and left out.
Nothing is applied.

Exit codes: 0 converted; 1 converted, but the API server would refuse it as it is; 2 error.`,
		Example: `  kubectl mw convert -f daemonset.yaml > managedworkload.yaml
  kubectl mw convert daemonset/fluentd -n logging
  kubectl get daemonsets -n logging -o yaml | kubectl mw convert -f -`,
		Args: cobra.MaximumNArgs(1),
	}
	outputFlag(cmd, &output, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "File with DaemonSets as YAML or JSON; - is standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sets, err := a.daemonSets(cmd.Context(), file, args)
		if err != nil {
			return err
		}
		return a.convert(sets, output)
	}
	return cmd
}

// convert prints the ManagedWorkloads that run what DaemonSets run.
func (a *app) convert(sets []appsv1.DaemonSet, output string) error {
	results := make([]convert.Result, len(sets))
	refused := false
	p := terminal.New(a.ErrOut)
	for i := range sets {
		results[i] = convert.DaemonSet(&sets[i])
		refused = refused || results[i].Refused()
		for _, n := range results[i].Notes {
			p.Printf("%s: %s\n", sets[i].Name, n.String())
		}
	}
	printed := a.printConvertedYAML
	if output == formatJSON {
		printed = a.printConvertedJSON
	}
	if err := printed(results); err != nil {
		return err
	}
	if refused {
		return errNo{}
	}
	return nil
}

// printConvertedJSON prints one object: a ManagedWorkload, or a List of several.
func (a *app) printConvertedJSON(results []convert.Result) error {
	items := make([]map[string]any, len(results))
	for i := range results {
		var err error
		if items[i], err = results[i].Object(); err != nil {
			return err
		}
	}
	if len(items) == 1 {
		return write(a.Out, formatJSON, items[0])
	}
	return write(a.Out, formatJSON, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": items})
}

// printConvertedYAML prints a document for each ManagedWorkload, with the notes as comments.
func (a *app) printConvertedYAML(results []convert.Result) error {
	for i := range results {
		text, err := results[i].YAML()
		if err != nil {
			return err
		}
		if i > 0 {
			text = "---\n" + text
		}
		if _, err := io.WriteString(a.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// daemonSets reads those of a file, or one of the cluster.
func (a *app) daemonSets(ctx context.Context, file string, args []string) ([]appsv1.DaemonSet, error) {
	switch {
	case (file == "") == (len(args) == 0):
		return nil, errors.New("give -f FILE or daemonset/NAME")
	case file != "":
		data, err := a.readFile(file)
		if err != nil {
			return nil, err
		}
		sets, err := a.decodeDaemonSets(file, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return sets, nil
	}
	kind, name, typed := strings.Cut(args[0], "/")
	if !typed || !isDaemonSet(kind) {
		return nil, fmt.Errorf("%q is no DaemonSet: give daemonset/NAME", args[0])
	}
	c, err := a.connect()
	if err != nil {
		return nil, err
	}
	ds := appsv1.DaemonSet{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, &ds); err != nil {
		return nil, err
	}
	return []appsv1.DaemonSet{ds}, nil
}

// readFile reads a file or standard input.
func (a *app) readFile(name string) ([]byte, error) {
	in := io.NopCloser(a.In)
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // The user names the file.
		if err != nil {
			return nil, err
		}
		in = file
	}
	defer in.Close() //nolint:errcheck // Closing what was only read loses nothing.
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, err
}

// decodeDaemonSets reads the documents of a file, and names on standard error what else is in
// it. An unknown field is an error: it would get lost.
func (a *app) decodeDaemonSets(file string, data []byte) ([]appsv1.DaemonSet, error) {
	wanted, others, err := choose(data, "a DaemonSet of apps/v1", func(d *document) bool {
		return d.Kind == "DaemonSet" && d.APIVersion == appsv1.SchemeGroupVersion.String()
	})
	if err != nil {
		return nil, err
	}
	warn := terminal.New(a.ErrOut)
	for _, other := range others {
		warn.Printf("%s: %s; not converted\n", file, other)
	}
	sets := make([]appsv1.DaemonSet, len(wanted))
	for i, d := range wanted {
		if err := yaml.UnmarshalStrict(d.data, &sets[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", d.where, err)
		}
	}
	return sets, nil
}
