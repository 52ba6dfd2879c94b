// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Localstack brings a stack up, or takes it down, for working by hand:
//
//	localstack up --state DIR
//	localstack down --state DIR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:          "localstack",
		Short:        "etcd, kube-apiserver, containerd, the manager and the shim in one folder",
		SilenceUsage: true,
	}
	var stateDir string
	root.PersistentFlags().StringVar(&stateDir, "state", "/var/tmp/mw-demo", "state folder of the stack")
	opts := localstack.Options{Detach: true, WithWebhook: true, Progress: os.Stderr}
	up := &cobra.Command{
		Use:   "up",
		Short: "Bring the stack up and leave it running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.StateDir = stateDir
			stack, err := localstack.Start(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if !opts.WithoutControlPlane {
				fmt.Printf("export KUBECONFIG=%s\n", stack.Kubeconfig())
			}
			return nil
		},
	}
	flags := up.Flags()
	flags.StringVar(&opts.NodeName, "node-name", localstack.DefaultNodeName, "name of the node; of several each has its number after it")
	flags.IntVar(&opts.Nodes, "nodes", 1, "number of nodes with a containerd and a shim each")
	flags.BoolVar(&opts.WithRegistry, "with-registry", false, "a registry for images of managedworkload.dev, empty at first")
	flags.BoolVar(&opts.WithoutControlPlane, "without-control-plane", false, "containerd alone")
	flags.BoolVar(&opts.WithoutRuntime, "without-runtime", false, "no containerd and no shim")
	flags.BoolVar(&opts.WithoutConfig, "without-config", false, "apply nothing; no manager and no shim")
	flags.BoolVar(&opts.WithoutManager, "without-manager", false, "no manager")
	flags.BoolVar(&opts.WithoutShim, "without-shim", false, "no shim")
	flags.BoolVar(&opts.WithObjects, "with-objects", false, "ConfigMaps, Secrets and tokens for containers, with kube-controller-manager and kube-apiserver where pods reach it")
	flags.BoolVar(&opts.WithControllerManager, "with-controller-manager", false, "kube-controller-manager as well")
	flags.BoolVar(&opts.WithScheduler, "with-scheduler", false, "kube-scheduler as well")
	flags.BoolVar(&opts.WithKubelet, "with-kubelet", false, "a kubelet with a containerd of its own as well")
	flags.StringVar(&opts.KubeletNodeName, "kubelet-node-name", localstack.DefaultKubeletNodeName, "name of the kubelet's node")
	flags.StringVar(&opts.Config, "config", "", "kustomize folder to apply; config/default when empty")
	flags.StringVar(&opts.Binary, "binary", "", "managedworkload program; built from this tree when empty")
	flags.StringVar(&opts.Containerd, "containerd", "", "another containerd than the pinned one")
	flags.StringArrayVar(&opts.ManagerArgs, "manager-arg", nil, "further flag of the manager")
	flags.StringArrayVar(&opts.ShimArgs, "shim-arg", nil, "further flag of the shim")
	down := &cobra.Command{
		Use:   "down",
		Short: "Take the stack down without a trace",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return localstack.Down(cmd.Context(), stateDir)
		},
	}
	root.AddCommand(up, down)
	return root
}
