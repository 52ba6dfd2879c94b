// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

const (
	// maxKillName and suffixLength are what the name of a KillRequest may have, and what the API
	// server adds to a prefix.
	maxKillName  = 63
	suffixLength = 5
	// dryRunDeadline is how long a dry run waits for nodes that do not answer.
	dryRunDeadline = 30 * time.Second
)

// killOptions are the flags of kill.
type killOptions struct {
	containers, nodes      []string
	selector               string
	all                    bool
	action, signal, reason string
	rollOut                bool
	grace                  int64
	deadline, ttl, timeout time.Duration
	dryRun, wait           bool
	output                 string
}

func (a *app) killCommand() *cobra.Command {
	var o killOptions
	cmd := &cobra.Command{
		Use:   "kill NAME --action=restart|signal|stop (--node=NODE | --selector=LABELS | --all)",
		Short: "Restart, signal or stop containers of a ManagedWorkload on chosen nodes",
		Long: `Make a KillRequest: for the main containers of a ManagedWorkload, or those that --container names,
on the nodes that --node and --selector choose. All nodes take --all. Look at it with --dry-run
first: manager and nodes say what would be done, with the grace period and the hook.

  --action=restart   kills each container with its grace period and its preStop hook, and starts another
  --action=signal    sends --signal to the first process of each container, and kills nothing
  --action=stop      kills each container, and starts none until "kubectl mw release", or
                     "kubectl delete kr", is called with the name that this prints

Without --wait this returns when the request is made; "kubectl get kr -o wide" shows what came of it.
It needs the rights to get managedworkloads and to create killrequests, and in the namespace to
delete pods; for a signal also to create pods/exec, for a stop to update managedworkloads; for
--wait and --dry-run to get and watch killrequests, and for --dry-run to delete them. With the right
to list nodeworkloads, a --node that does not run the workload is an error. A stop is also about nodes
that run it later: for one that does not run it yet it needs the right to get nodes.

Exit codes: 0 the request is made, with --wait also done (a stop: all is stopped), with --dry-run it
would be; 1 it has failed on a node, is not done after --timeout, or would fail (with --dry-run); 2 error.`,
		Args: cobra.ExactArgs(1),
	}
	outputFlag(cmd, &o.output, formatName, formatJSON, formatYAML)
	checkOutput := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		return errors.Join(checkOutput(cmd, args), o.check(cmd))
	}
	flags := cmd.Flags()
	flags.StringVar(&o.action, "action", "", "restart, signal or stop")
	flags.StringVar(&o.signal, "signal", "", "Signal of --action=signal, such as HUP")
	flags.StringSliceVarP(&o.containers, "container", "c", nil, "Container or sidecar; all main containers if not given")
	flags.StringSliceVar(&o.nodes, "node", nil, "Node that runs the workload")
	flags.StringVarP(&o.selector, "selector", "l", "", "Labels of nodes, beside --node")
	flags.BoolVar(&o.all, "all", false, "All nodes that run the workload; with --action=stop also those that come later")
	flags.StringVar(&o.reason, "reason", "", "Why, for the kill records and for people")
	flags.BoolVar(&o.rollOut, "roll-out", false, "Serve nodes within maxUnavailable of the workload, with --action=restart; all at once if not given")
	flags.Int64Var(&o.grace, "grace-period", -1, "Grace period of the kills in seconds; negative: that of the template")
	flags.DurationVar(&o.deadline, "deadline", 0, "After this time the request has failed where it is not done, such as 10m; 0 has no limit")
	flags.DurationVar(&o.ttl, "ttl", time.Hour, "How long after its end the request is kept; negative: until it is deleted")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Kill nothing: have manager and nodes say what would be done")
	flags.BoolVar(&o.wait, "wait", false, "Wait until the request is done, or has failed")
	flags.DurationVar(&o.timeout, "timeout", 0, "How long to wait with --wait, such as 5m; 0 has no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.kill(cmd.Context(), args[0], &o) }
	return cmd
}

// actions are what --action takes.
var actions = map[string]v1alpha1.RequestAction{
	"restart": v1alpha1.RequestRestart, "signal": v1alpha1.RequestSignal, "stop": v1alpha1.RequestStop,
}

// check refuses what does not fit together, above all nodes that were not chosen.
func (o *killOptions) check(cmd *cobra.Command) error {
	action, known := actions[strings.ToLower(o.action)]
	if !known {
		return fmt.Errorf("--action must be restart, signal or stop, not %q", o.action)
	}
	if err := o.checkNodes(); err != nil {
		return err
	}
	switch {
	case (o.signal != "") != (action == v1alpha1.RequestSignal):
		return errors.New("--signal must be given with --action=signal, and only then")
	case o.rollOut && action != v1alpha1.RequestRestart:
		return errors.New("--roll-out must be given with --action=restart only")
	case o.grace >= 0 && action == v1alpha1.RequestSignal:
		return errors.New("--grace-period must not be given with --action=signal, which kills nothing")
	case cmd.Flags().Changed("deadline") && o.deadline < time.Second:
		return fmt.Errorf("--deadline must be 1s or more, not %s", o.deadline)
	case o.timeout != 0 && !o.wait && !o.dryRun:
		return errors.New("--timeout must be given with --wait or --dry-run")
	}
	return nil
}

func (o *killOptions) checkNodes() error {
	chosen := len(o.nodes) > 0 || o.selector != ""
	switch {
	case o.all && chosen:
		return errors.New("--all is for all nodes: give either --all, or --node and --selector")
	case !o.all && !chosen:
		return errors.New("choose nodes with --node or --selector, or all of them with --all")
	}
	return nil
}

// request is the KillRequest that is asked for.
func (o *killOptions) request(mw *v1alpha1.ManagedWorkload) (*v1alpha1.KillRequest, error) {
	for _, name := range o.containers {
		if !slices.Contains(killable(mw), name) {
			return nil, fmt.Errorf("--container: managedworkload %q has no container %q; it has %s", mw.Name, name, strings.Join(killable(mw), ", "))
		}
	}
	action := strings.ToLower(o.action)
	kr := &v1alpha1.KillRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KillRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: mw.Namespace, GenerateName: killPrefix(mw.Name, action)},
		Spec: v1alpha1.KillRequestSpec{
			WorkloadName: mw.Name, Nodes: v1alpha1.RequestNodes{All: o.all, Names: o.nodes}, Containers: o.containers,
			Action: actions[action], Signal: signalName(o.signal), Reason: o.reason, DryRun: o.dryRun,
		},
	}
	if o.selector != "" {
		selector, err := metav1.ParseToLabelSelector(o.selector)
		if err != nil {
			return nil, fmt.Errorf("--selector: %w", err)
		}
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			return nil, errors.New("--selector: it chooses all nodes; that takes --all")
		}
		kr.Spec.Nodes.Selector = selector
	}
	if o.rollOut {
		kr.Spec.Order = v1alpha1.RequestRollOut
	}
	if o.grace >= 0 {
		kr.Spec.TerminationGracePeriodSeconds = &o.grace
	}
	deadline := o.deadline
	if o.dryRun && deadline == 0 {
		deadline = dryRunDeadline
	}
	if deadline > 0 {
		kr.Spec.ActiveDeadlineSeconds = new(int64(deadline.Round(time.Second) / time.Second))
	}
	if o.ttl >= 0 {
		kr.Spec.TTLSecondsAfterFinished = new(int32(min(o.ttl/time.Second, 1<<31-1)))
	}
	return kr, nil
}

// killable are the containers that a request may name.
func killable(mw *v1alpha1.ManagedWorkload) []string {
	var names []string
	spec := &mw.Spec.Template.Spec
	for i := range spec.InitContainers {
		if p := spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			names = append(names, spec.InitContainers[i].Name)
		}
	}
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
	}
	return names
}

// killPrefix begins the names of requests, which the API server completes.
func killPrefix(name, action string) string {
	rest := "-" + action + "-"
	return strings.TrimRight(name[:min(len(name), maxKillName-suffixLength-len(rest))], "-.") + rest
}

// signalName is what people may leave SIG of.
func signalName(name string) string {
	name = strings.ToUpper(name)
	if name == "" || strings.HasPrefix(name, "SIG") {
		return name
	}
	return "SIG" + name
}

func (a *app) kill(ctx context.Context, arg string, o *killOptions) error {
	kube, mw, err := a.connectAndGet(ctx, arg)
	if err != nil {
		return err
	}
	kr, err := o.request(mw)
	if err != nil {
		return err
	}
	if err := kube.checkNamed(ctx, mw, kr); err != nil {
		return err
	}
	return (&kill{cluster: kube, killOptions: o, request: kr, p: terminal.New(a.Out), out: a.Out}).run(ctx)
}
