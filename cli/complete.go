// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// completionTimeout bounds what a shell waits for after a press of Tab.
	completionTimeout = 3 * time.Second
	// completer is how the names of the programs begin that kubectl asks for the completions
	// of a plugin (kubectl pkg/cmd/plugin_completion.go).
	completer = "kubectl_complete-"
)

// completionArgs returns the arguments of a call: those of cobra's completion where kubectl
// asks for it.
func completionArgs(args []string) []string {
	if strings.HasPrefix(filepath.Base(args[0]), completer) {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

// completion returns what may stand at a place of a command line.
type completion = cobra.CompletionFunc

// addCompletions adds the completion of arguments, by what a command's usage names them, and
// of flags, by their names.
func (a *app) addCompletions(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		a.addCompletions(child)
	}
	if complete := a.argument(cmd); complete != nil {
		cmd.ValidArgsFunction = complete
	}
	for name, complete := range map[string]completion{
		"node":      a.names(corev1.SchemeGroupVersion.WithKind("NodeList"), false),
		"namespace": a.names(corev1.SchemeGroupVersion.WithKind("NamespaceList"), false),
		"container": a.containers,
		"context":   a.configured(func(c *clientcmdapi.Config) iter.Seq[string] { return maps.Keys(c.Contexts) }),
		"cluster":   a.configured(func(c *clientcmdapi.Config) iter.Seq[string] { return maps.Keys(c.Clusters) }),
		"user":      a.configured(func(c *clientcmdapi.Config) iter.Seq[string] { return maps.Keys(c.AuthInfos) }),
		"action":    cobra.FixedCompletions([]string{"restart", "signal", "stop"}, cobra.ShellCompDirectiveNoFileComp),
		"signal":    cobra.FixedCompletions([]string{"HUP", "INT", "QUIT", "TERM", "USR1", "USR2"}, cobra.ShellCompDirectiveNoFileComp),
		"sort-by":   cobra.FixedCompletions([]string{"cpu", "memory"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			// It fails for a flag that does not exist only.
			_ = cmd.RegisterFlagCompletionFunc(name, complete)
		}
	}
}

// argument returns the completion of the first argument of a command; nil if it has none.
func (a *app) argument(cmd *cobra.Command) completion {
	name, rest, _ := strings.Cut(cmd.Use, " ")
	switch first, _, _ := strings.Cut(strings.Trim(rest, "[]"), " "); {
	case first == "NODE", first == "NAME" && name == "node":
		return a.names(corev1.SchemeGroupVersion.WithKind("NodeList"), true)
	case first == "NAME" && (name == "why" || name == "timeline"):
		return a.typed(managedWorkloads, nodeWorkloads)
	case first == "NAME":
		return a.typed(managedWorkloads)
	case first == "KILLREQUEST":
		return a.names(v1alpha1.GroupVersion.WithKind("KillRequestList"), true)
	case name == "convert":
		return a.daemonSetNames
	}
	return nil
}

// named are objects that an argument TYPE/NAME names, where meant reports that TYPE means them.
type named struct {
	list  schema.GroupVersionKind
	meant func(kind string) bool
}

var (
	managedWorkloads = named{v1alpha1.GroupVersion.WithKind("ManagedWorkloadList"), isManagedWorkload}
	nodeWorkloads    = named{v1alpha1.GroupVersion.WithKind("NodeWorkloadList"), isNodeWorkload}
	daemonSets       = named{appsv1.SchemeGroupVersion.WithKind("DaemonSetList"), isDaemonSet}
)

// typed completes a first argument: NAME with the names of the first objects, TYPE/NAME with those of the
// objects that TYPE means.
func (a *app) typed(objects ...named) completion {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		kind, name, hasKind := strings.Cut(prefix, "/")
		if !hasKind {
			return a.names(objects[0].list, true)(cmd, args, prefix)
		}
		for _, o := range objects {
			if o.meant(kind) {
				found, directive := a.names(o.list, true)(cmd, args, name)
				for i := range found {
					found[i] = kind + "/" + found[i]
				}
				return found, directive
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// daemonSetNames completes daemonset/NAME, of which neither part may be left out.
func (a *app) daemonSetNames(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 && !strings.Contains(prefix, "/") {
		return []string{"daemonset/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return a.typed(daemonSets)(cmd, args, prefix)
}

// configured completes what a kubeconfig has names for.
func (a *app) configured(names func(*clientcmdapi.Config) iter.Seq[string]) completion {
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		config, err := a.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found := slices.Sorted(names(&config))
		return slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, prefix) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// names completes the names of a kind of objects, in the namespace of the call where the kind
// has one. With first it completes the first argument only.
func (a *app) names(kind schema.GroupVersionKind, first bool) completion {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if first && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		var found []string
		err := a.ask(cmd, func(ctx context.Context, c *cluster) error {
			var options []client.ListOption
			if kind.Group != corev1.GroupName {
				options = append(options, client.InNamespace(c.namespace))
			}
			return c.pages(ctx, list, func() error {
				for i := range list.Items {
					if name := list.Items[i].Name; strings.HasPrefix(name, prefix) {
						found = append(found, name)
					}
				}
				return nil
			}, options...)
		})
		if err != nil && len(found) == 0 { // some of many are better than none
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// containers completes those of the ManagedWorkload that the command is about.
func (a *app) containers(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	err := a.ask(cmd, func(ctx context.Context, c *cluster) error {
		mw, err := c.get(ctx, args[0])
		if err != nil {
			return err
		}
		spec := &mw.Spec.Template.Spec
		for _, container := range slices.Concat(spec.Containers, spec.InitContainers) {
			if strings.HasPrefix(container.Name, prefix) {
				found = append(found, container.Name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// ask asks the cluster, within the time that a shell waits.
func (a *app) ask(cmd *cobra.Command, question func(context.Context, *cluster) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := a.connect()
	if err != nil {
		return err
	}
	return question(ctx, c)
}
