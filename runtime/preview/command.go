// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package preview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/manifest"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// observeTimeout bounds the look at the runtime.
const observeTimeout = 30 * time.Second

// The formats of the output.
const (
	formatTable = "table"
	formatJSON  = "json"
)

// Options say what to preview.
type Options struct {
	// File holds the workload as it is, Diff as it is to become; - is Stdin.
	File, Diff string
	// RuntimeEndpoint is the CRI socket to observe; empty with Diff takes
	// everything to run as File says.
	RuntimeEndpoint string
	// NodeFile holds the Node, which decides about the placement; empty leaves that
	// open.
	NodeFile string
	// NodeName is the node to preview a ManagedWorkload for.
	NodeName string
	// Output is table or json.
	Output string
	// Stdin and Stdout of the command.
	Stdin  io.Reader
	Stdout io.Writer
	// connect returns the runtime at an endpoint as the shim of a node sees it.
	connect func(ctx context.Context, endpoint, node string) (Runtime, io.Closer, error)
}

// flagNames are the flags that AddFlags adds.
var flagNames = []string{"filename", "diff", "runtime-endpoint", "node", "node-name", "output"}

// AddFlags adds the flags and returns their names.
func (o *Options) AddFlags(flags *pflag.FlagSet) []string {
	flags.StringVarP(&o.File, "filename", "f", "", "File with a NodeWorkload or ManagedWorkload as YAML or JSON; - is standard input")
	flags.StringVar(&o.Diff, "diff", "", "File with the changed workload, or -: what would the change kill?")
	flags.StringVar(&o.RuntimeEndpoint, "runtime-endpoint", "", "CRI socket of the shim's container runtime, such as unix:///run/managedworkload/containerd/containerd.sock; it is only read")
	flags.StringVar(&o.NodeFile, "node", "", "File with the Node as YAML or JSON (kubectl get node NAME -o yaml), to check the placement; - is standard input")
	flags.StringVar(&o.NodeName, "node-name", "", "Node for which to compute the NodeWorkload of a ManagedWorkload")
	flags.StringVarP(&o.Output, "output", "o", formatTable, "Output format: table or json")
	return flagNames
}

// check finds what does not fit together.
func (o *Options) check() error {
	switch {
	case o.File == "" && o.Diff == "":
		return errors.New("nothing to plan: give -f WORKLOAD with --runtime-endpoint, --diff NEW with -f OLD or --runtime-endpoint, or --input FILE")
	case o.Diff == "" && o.RuntimeEndpoint == "":
		return errors.New("-f needs --runtime-endpoint to see what runs, or --diff NEW to compare with")
	case o.File == "" && o.RuntimeEndpoint == "":
		return errors.New("--diff needs -f OLD, --runtime-endpoint, or both")
	case stdins(o.File, o.Diff, o.NodeFile) > 1:
		return errors.New("only one of -f, --diff and --node can be standard input")
	case o.Output != formatTable && o.Output != formatJSON:
		return fmt.Errorf("--output must be %s or %s, not %q", formatTable, formatJSON, o.Output)
	}
	return nil
}

// stdins counts the names that are standard input.
func stdins(names ...string) (n int) {
	for _, name := range names {
		if name == "-" {
			n++
		}
	}
	return n
}

// Run prints what a shim would do. It changes nothing, on the runtime or
// elsewhere.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	before, after, err := o.read()
	if err != nil {
		return err
	}
	p, err := o.preview(ctx, before, after)
	if err != nil {
		return err
	}
	if o.Output == formatJSON {
		return WriteJSON(o.Stdout, p)
	}
	return WriteTable(o.Stdout, p)
}

// read reads the workload as it is (nil if that is not given beside a change)
// and as it is to become.
func (o *Options) read() (before, after *template.Workload, err error) {
	if o.Diff == "" {
		after, err = o.readFile(o.File)
		return nil, after, err
	}
	if o.File != "" {
		if before, err = o.readFile(o.File); err != nil {
			return nil, nil, err
		}
	}
	if after, err = o.readFile(o.Diff); err != nil {
		return nil, nil, err
	}
	return before, after, merge(before, after)
}

// merge checks that two objects are the same workload, and lets the new one have
// what only the old one says.
func merge(before, after *template.Workload) error {
	if before == nil {
		return nil
	}
	switch {
	case before.Namespace != after.Namespace || before.Name != after.Name:
		return fmt.Errorf("metadata.name: -f is about %s/%s, --diff about %s/%s", before.Namespace, before.Name, after.Namespace, after.Name)
	case before.Spec.NodeName != after.Spec.NodeName:
		return fmt.Errorf("spec.nodeName: -f is about node %q, --diff about %q", before.Spec.NodeName, after.Spec.NodeName)
	case before.UID != "" && after.UID != "" && before.UID != after.UID:
		return fmt.Errorf("metadata.uid: -f has %s, --diff has %s", before.UID, after.UID)
	}
	if after.UID == "" {
		after.UID = before.UID
	}
	after.Status = before.Status
	if after.DeletionTimestamp == nil {
		after.DeletionTimestamp = before.DeletionTimestamp
	}
	return nil
}

func (o *Options) readFile(name string) (*template.Workload, error) {
	data, err := o.readAll(name)
	if err != nil {
		return nil, err
	}
	nw, err := manifest.Reader{Node: o.NodeName}.Read(bytes.NewReader(data))
	if err != nil {
		if name == "-" {
			name = "standard input"
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nw, nil
}

// readAll reads a file, or standard input, up to a little more than manifest.MaxSize.
func (o *Options) readAll(name string) (_ []byte, err error) {
	in := io.NopCloser(o.Stdin)
	if name != "-" {
		if in, err = os.Open(name); err != nil { //nolint:gosec // The user names the file.
			return nil, err
		}
	}
	defer in.Close() //nolint:errcheck // Closing what was only read loses nothing.
	return io.ReadAll(io.LimitReader(in, manifest.MaxSize+1))
}

func (o *Options) preview(ctx context.Context, before, after *template.Workload) (Preview, error) {
	in := Input{Source: SourceAssumed, Status: &after.Status, Now: time.Now()}
	if before != nil {
		in.Before = template.Pod(before)
	}
	var seen observation
	if o.RuntimeEndpoint != "" {
		var err error
		if seen, err = o.observe(ctx, after); err != nil {
			return Preview{}, fmt.Errorf("observe the runtime at %s: %w", o.RuntimeEndpoint, err)
		}
		in.Source, in.Observed, in.Blocked, after.UID = SourceRuntime, seen.status, seen.blocked, seen.uid
		in.Images = seen.images
	} else {
		in.Observed = assumed(before)
	}
	node, err := o.readNode()
	if err != nil {
		return Preview{}, err
	}
	if err := in.place(after, node); err != nil {
		return Preview{}, err
	}
	if o.Diff != "" {
		in.Notes = append(in.Notes, admissionNotes(after)...)
	}
	in.Pod = template.Pod(after)
	p := Compute(in)
	p.Notes = append(seen.notes, p.Notes...)
	return p, nil
}

// assumed is what is taken to run: everything, unless the workload has ended.
func assumed(before *template.Workload) *plan.PodStatus {
	if phase := before.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return &plan.PodStatus{}
	}
	return Running(template.Pod(before))
}

func (o *Options) observe(ctx context.Context, nw *template.Workload) (_ observation, err error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	connect := o.connect
	if connect == nil {
		connect = dial
	}
	runtime, closer, err := connect(ctx, o.RuntimeEndpoint, nw.Spec.NodeName)
	if err != nil {
		return observation{}, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	return observe(ctx, runtime, nw)
}

// dial connects to a real runtime. What a client would ask the pod's directories
// for is never needed, because nothing is created.
func dial(ctx context.Context, endpoint, node string) (Runtime, io.Closer, error) {
	client, err := cri.Dial(ctx, cri.Config{Differences: plan.AllDifferences(), Endpoint: endpoint, Instance: node, PodDir: struct{ cri.PodDir }{}})
	if err != nil {
		return nil, nil, err
	}
	return client, client, nil
}

var _ Runtime = (*cri.Client)(nil)
