// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/managedworkload/managedworkload/cli/terminal"
)

// Exit codes. kubectl passes those of a plugin on.
const (
	// ExitOK: done, or the answer is yes.
	ExitOK = 0
	// ExitNo: the command worked, and the answer is no: a roll-out is not complete, a change
	// would kill, a converted DaemonSet would be refused.
	ExitNo = 1
	// ExitError: the command did not work.
	ExitError = 2
)

const exitCodes = `
Exit codes: 0 for done or yes; 1 for no (a roll-out is not complete, a change would
kill, a converted template would be refused); 2 for an error.`

// errNo ends a command with ExitNo. Its text is printed.
type errNo struct{ text string }

func (e errNo) Error() string { return e.text }

// app is what all commands share.
type app struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	now   func() time.Time
}

// Plugin is one call of the plugin.
type Plugin struct {
	app  *app
	root *cobra.Command
}

// New returns a call of the plugin. args are those of the process: by the first one the help
// texts name the command.
func New(args []string, version string, streams genericiooptions.IOStreams) *Plugin {
	a := &app{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true), now: time.Now}
	p := &Plugin{app: a, root: a.root(args[0], version)}
	refuseUnknown(p.root)
	a.addCompletions(p.root)
	p.root.SetArgs(completionArgs(args))
	return p
}

// silence ends what libraries log about connections: what matters is in the errors that they return. It is done
// once, as they read their logger without a lock.
var silence = sync.OnceFunc(func() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
})

// Run executes the call and returns its exit code.
func (p *Plugin) Run(ctx context.Context) int {
	silence()
	return p.app.exitCode(p.root.ExecuteContext(ctx))
}

func (a *app) exitCode(err error) int {
	var no errNo
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &no):
		if no.text != "" {
			terminal.New(a.ErrOut).Printf("%s\n", no.text)
		}
		return ExitNo
	}
	terminal.New(a.ErrOut).Printf("error: %s\n", err)
	return ExitError
}

// program returns the name of a file that runs the plugin.
func program(file string) string {
	return strings.TrimSuffix(filepath.Base(file), ".exe")
}

// displayName is how a person calls the plugin: by its file name, through kubectl.
func displayName(file string) string {
	if name, ok := strings.CutPrefix(program(file), "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(name, "-", " ")
	}
	return "kubectl mw"
}

func (a *app) root(name, version string) *cobra.Command {
	root := &cobra.Command{
		Use:           program(name),
		Short:         "Roll out ManagedWorkloads, and see why their containers were killed",
		Long:          "Roll out ManagedWorkloads, see why their containers were killed, and what a change would kill.\n" + exitCodes,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(name)},
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	a.flags.AddFlags(root.PersistentFlags())
	root.InitDefaultHelpFlag() // before the command is looked for, so that --help takes no value
	root.AddCommand(a.rolloutCommand(), a.whyCommand(), a.timelineCommand(), a.topCommand(), a.planCommand(), a.convertCommand(), a.drainCommand(), a.undrainCommand(), a.killCommand(), a.releaseCommand())
	return root
}
