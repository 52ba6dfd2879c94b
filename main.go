// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command managedworkload runs containers on nodes with the kubelet's lifecycle
// and records who asked for every kill. Its subcommands are the manager, the
// node-local shim, and plan, which computes what a shim would do.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/managedworkload/managedworkload/controllers"
	"github.com/managedworkload/managedworkload/runtime/pause"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
	"github.com/managedworkload/managedworkload/runtime/preview"
	"github.com/managedworkload/managedworkload/runtime/shim"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "managedworkload:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "managedworkload",
		Short:         "Containers on every matching node, with the kubelet's lifecycle and a record of every kill",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(managerCommand(), shimCommand(), planCommand(), pauseCommand(), versionCommand())
	return root
}

func managerCommand() *cobra.Command {
	var options controllers.Options
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Turn ManagedWorkloads into a NodeWorkload for each matching node",
		Args:  cobra.NoArgs,
	}
	options.AddFlags(cmd.Flags())
	logs := addLogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return controllers.Run(logs(cmd.Context()), options)
	}
	return cmd
}

func shimCommand() *cobra.Command {
	var options shim.Options
	cmd := &cobra.Command{
		Use:   "shim",
		Short: "Run the NodeWorkloads of this node on its container runtime",
		Args:  cobra.NoArgs,
	}
	options.AddFlags(cmd.Flags())
	logs := addLogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return shim.Run(logs(cmd.Context()), options)
	}
	return cmd
}

func planCommand() *cobra.Command {
	var input string
	var options preview.Options
	cmd := &cobra.Command{
		Use:   "plan {-f FILE | --diff FILE | --input FILE}",
		Short: "Show what a shim would do and why, without doing it",
		Long: `Show what the shim of a node would do now about a workload, or what a change
would kill, and why. Nothing is changed: the runtime is only read.

  plan -f WORKLOAD --runtime-endpoint SOCKET         what the shim would do now
  plan --diff NEW -f OLD                             what a change would kill, if all runs
  plan --diff NEW --runtime-endpoint SOCKET          what it would kill as things are; with
                                                     -f OLD it names the fields that changed
  plan --diff NEW -f OLD --node NODE                 also whether the node keeps the workload
  plan --input FILE                                  answer recorded plan inputs

A file holds a NodeWorkload (kubectl get nw NAME -o yaml) or, with --node-name, a
ManagedWorkload. NODE holds the Node (kubectl get node NAME -o yaml): without it a
changed nodeSelector, affinity or toleration is reported as not decided. A template
with a field that is not supported is refused by the path of the field. Admission is
not asked, and KillRequests that keep containers stopped, ConfigMaps and Secrets that
are missing and the access to images are not looked at. - is standard input.

--input takes one JSON object a line and prints one object with id and actions for
each, in input order. The keys, of which the first three are required:

  id                          string, returned with the answer
  pod                         the Pod: metadata, spec
  podStatus                   what the runtime reports: id, name, namespace, ips,
                              activeContainerIDs, newest first
    sandboxes                 id, state (READY, NOTREADY), attempt, createdAt (ns),
                              networkNamespace (POD, NODE), network {ip, additionalIPs}
    containers                id, name, state (created, running, exited, unknown),
                              exitCode, reason, message, hashMatches, restartCount,
                              createdAt, startedAt, finishedAt, image, imageID, imageRef
  probes                      {liveness, startup}: container ID to success, failure
                              or unknown
  restartAllContainers        bool
  actuatedContainerResources  container name to the resources it was given last
  output                      a recorded answer; not read

A line that is not valid JSON, or has another key or value, is reported with its
number on standard error; the other lines are answered, and the exit status is 1.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&input, "input", "", "File with plan inputs; - is standard input")
	others := options.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("input") {
			options.Stdin, options.Stdout = cmd.InOrStdin(), cmd.OutOrStdout()
			return preview.Run(cmd.Context(), options)
		}
		for _, name := range others {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--input answers recorded states and cannot be combined with --%s", name)
			}
		}
		return answerVectors(cmd, input)
	}
	return cmd
}

func answerVectors(cmd *cobra.Command, input string) error {
	in, err := openInput(cmd, input)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // Closing what was only read loses nothing.
	return vectors.Run(in, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

func openInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	file, err := os.Open(name) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, fmt.Errorf("open --input: %w", err)
	}
	return file, nil
}

// pauseCommand is for the help: main does not get as far as this when it is asked to pause.
func pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   pause.Name,
		Short: "Wait until asked to end: the process of a Pod that reserves what a shim runs",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { pause.Wait() },
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmd.Printf("managedworkload %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// addLogFlags adds the --zap-... flags and returns what sets logging up from
// them once they are parsed.
func addLogFlags(cmd *cobra.Command) func(context.Context) context.Context {
	options := zap.Options{}
	flags := flag.NewFlagSet("log", flag.ContinueOnError)
	options.BindFlags(flags)
	cmd.Flags().AddGoFlagSet(flags)
	return func(ctx context.Context) context.Context {
		log := zap.New(zap.UseFlagOptions(&options))
		ctrl.SetLogger(log)
		klog.SetLogger(log.WithName("client-go"))
		return logr.NewContext(ctx, log)
	}
}
