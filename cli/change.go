// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// defaultFieldManager is who changed a template, in kill records too (requestedBy).
const defaultFieldManager = "kubectl-managedworkload"

// change is what undo, pause, resume and restart have in common.
type change struct {
	app     *app
	manager string
	dryRun  string
	output  *genericclioptions.PrintFlags
}

func (a *app) changeFlags(cmd *cobra.Command) *change {
	c := &change{app: a, output: genericclioptions.NewPrintFlags("")}
	c.output.AddFlags(cmd)
	cmd.Flags().StringVar(&c.manager, "field-manager", defaultFieldManager, "Name of the manager that changes the field")
	dryRunFlag(cmd, &c.dryRun, "change nothing, and ask the API server or not")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if err := checkDryRun(c.dryRun); err != nil {
			return err
		}
		_, err := c.output.ToPrinter() // what cannot be printed is not changed
		return err
	}
	return c
}

// operation is an element of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// errChanged: the object is not what was read any more.
var errChanged = errors.New("the ManagedWorkload was changed meanwhile; run the command again")

// apply patches the object that was read, and nothing later, and prints what was done.
func (c *change) apply(ctx context.Context, kube *cluster, mw *v1alpha1.ManagedWorkload, done string, operations ...operation) error {
	// Of that object and spec: the status changes all the time during a roll-out.
	tests := []operation{{"test", "/metadata/uid", mw.UID}, {"test", "/metadata/generation", mw.Generation}}
	patch, err := json.Marshal(append(tests, operations...))
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	object, err := untyped(mw)
	if err != nil {
		return err
	}
	if c.dryRun == "client" {
		err = patchLocally(object, patch)
	} else {
		options := []client.PatchOption{client.FieldOwner(c.manager)}
		if c.dryRun == "server" {
			options = append(options, client.DryRunAll)
		}
		err = kube.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), options...)
	}
	if err != nil {
		return kube.explain(ctx, mw, err)
	}
	return c.print(object, done)
}

// untyped is what is patched and printed: fields that a later version of the API adds stay in
// the answer of the API server.
func untyped(mw *v1alpha1.ManagedWorkload) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mw)
	if err != nil {
		return nil, fmt.Errorf("read the ManagedWorkload: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ManagedWorkload"))
	return object, nil
}

// patchLocally applies a JSON Patch without the API server.
func patchLocally(object *unstructured.Unstructured, data []byte) error {
	before, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	return object.UnmarshalJSON(after)
}

// explain says that a patch failed because its test did, for which the API server has no
// words of its own.
func (c *cluster) explain(ctx context.Context, mw *v1alpha1.ManagedWorkload, err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		return err
	}
	now, errGet := c.get(ctx, mw.Name)
	if errGet == nil && (now.UID != mw.UID || now.Generation != mw.Generation) {
		return errChanged
	}
	return err
}

// print prints the object in the format of -o, or its name and what was done.
func (c *change) print(object *unstructured.Unstructured, done string) error {
	c.output.NamePrintFlags.Operation = done + map[string]string{"server": " (server dry run)", "client": " (dry run)"}[c.dryRun]
	printer, err := c.output.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(object, c.app.Out)
}

// hashOf identifies the template of a ManagedWorkload as its revision does.
func hashOf(mw *v1alpha1.ManagedWorkload) string {
	t := mw.Spec.Template.DeepCopy()
	template.SetDefaults(t)
	return template.Hash(t)
}

func (a *app) pauseCommand(name string, paused bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " NAME",
		Short: map[bool]string{true: "Keep a changed template from further nodes", false: "Let a paused roll-out continue"}[paused],
		Long: map[bool]string{
			true:  "Set spec.paused: nodes that do not have the changed template yet keep what they run.\n",
			false: "Remove spec.paused: a changed template reaches the other nodes.\n",
		}[paused] + exitCodes,
		Args: cobra.ExactArgs(1),
	}
	c := a.changeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kube, mw, err := a.connectAndGet(cmd.Context(), args[0])
		switch {
		case err != nil:
			return err
		case mw.Spec.Paused && paused:
			return fmt.Errorf("managedworkloads.managedworkload.dev %q is already paused", mw.Name)
		case !mw.Spec.Paused && !paused:
			return fmt.Errorf("managedworkloads.managedworkload.dev %q is not paused", mw.Name)
		}
		if paused {
			return c.apply(cmd.Context(), kube, mw, "paused", operation{"add", "/spec/paused", true})
		}
		return c.apply(cmd.Context(), kube, mw, "resumed", operation{"remove", "/spec/paused", nil})
	}
	return cmd
}

func (a *app) connectAndGet(ctx context.Context, arg string) (*cluster, *v1alpha1.ManagedWorkload, error) {
	kube, err := a.connect()
	if err != nil {
		return nil, nil, err
	}
	mw, err := kube.get(ctx, arg)
	return kube, mw, err
}

func (a *app) restartCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart the containers, within the budget of a roll-out",
		Long: `Set the annotation kubectl.kubernetes.io/restartedAt in the template: the containers of
all nodes are restarted, as many nodes at a time as maxUnavailable allows.
` + exitCodes,
		Args: cobra.ExactArgs(1),
	}
	c := a.changeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kube, mw, err := a.connectAndGet(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		now := a.now().Format(time.RFC3339)
		annotations := mw.Spec.Template.Annotations
		switch {
		case mw.Spec.Paused:
			return fmt.Errorf("managedworkloads.managedworkload.dev %q can't restart paused managedworkload (run rollout resume first)", mw.Name)
		case annotations[v1alpha1.AnnotationRestartedAt] == now:
			return errors.New("if restart has already been triggered within the past second, please wait before attempting to trigger another")
		}
		metadata := mw.Spec.Template.ObjectMeta.DeepCopy()
		if metadata.Annotations == nil {
			metadata.Annotations = map[string]string{}
		}
		metadata.Annotations[v1alpha1.AnnotationRestartedAt] = now
		return c.apply(cmd.Context(), kube, mw, "restarted", operation{"add", "/spec/template/metadata", metadata})
	}
	return cmd
}
