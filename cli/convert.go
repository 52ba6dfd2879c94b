// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

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
error, and above the YAML as comments. Nothing is applied.

Exit codes: 0 converted; 1 converted, but the API server would refuse it as it is; 2 error.`,
		Example: `  kubectl mw convert -f daemonset.yaml > managedworkload.yaml
  kubectl mw convert daemonset/fluentd -n logging`,
		Args: cobra.MaximumNArgs(1),
	}
	outputFlag(cmd, &output, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "File with DaemonSets as YAML or JSON; - is standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sets, err := a.daemonSets(cmd.Context(), file, args)
		if err != nil {
			return err
		}
		refused := false
		for i := range sets {
			result := convert.DaemonSet(&sets[i])
			refused = refused || result.Refused()
			if err := a.printConverted(&result, output, i > 0); err != nil {
				return err
			}
		}
		if refused {
			return errNo{}
		}
		return nil
	}
	return cmd
}

func (a *app) printConverted(r *convert.Result, output string, another bool) error {
	p := terminal.New(a.ErrOut)
	for _, n := range r.Notes {
		p.Printf("%s: %s\n", r.ManagedWorkload.Name, n.String())
	}
	if output == formatJSON {
		object, err := r.Object()
		if err != nil {
			return err
		}
		return write(a.Out, formatJSON, object)
	}
	text, err := r.YAML()
	if err != nil {
		return err
	}
	if another {
		text = "---\n" + text
	}
	_, err = io.WriteString(a.Out, text)
	return err
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
		return decodeDaemonSets(data)
	}
	kind, name, typed := strings.Cut(args[0], "/")
	if !typed || kind != "ds" && !strings.HasPrefix(kind, "daemonset") {
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

// decodeDaemonSets reads the documents of a file. An unknown field is an error: it would
// get lost.
func decodeDaemonSets(data []byte) ([]appsv1.DaemonSet, error) {
	var sets []appsv1.DaemonSet
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		ds := appsv1.DaemonSet{}
		if err := sigsyaml.Unmarshal(document, &ds.TypeMeta); err != nil {
			return nil, err
		}
		if ds.Kind != "DaemonSet" || ds.APIVersion != appsv1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("want a DaemonSet of apps/v1, not %q of %q", ds.Kind, ds.APIVersion)
		}
		if err := sigsyaml.UnmarshalStrict(document, &ds); err != nil {
			return nil, err
		}
		sets = append(sets, ds)
	}
	if len(sets) == 0 {
		return nil, errors.New("no DaemonSet found")
	}
	return sets, nil
}
