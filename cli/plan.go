// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/forecast"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// planOptions are the flags of plan.
type planOptions struct {
	file, output       string
	serverSide, forced bool
	fieldManager       string
}

func (a *app) planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Say what applying a changed file would kill, on which nodes and in which batches",
		Long: `Say what kubectl apply -f FILE would do to the nodes: which containers it would kill and
why, with which grace period, in which batches, and which nodes would wait and why. The API
server is asked by a dry run, with its webhooks: where it refuses the file, that is the answer.
Nothing is changed.

It is assumed that each node becomes available with the change, and that what the last status
of a NodeWorkload reports still runs. Listing Nodes and the Leases of the shims needs rights of
its own; without them placement is not checked, and each node is taken to have a shim.

Exit codes, as of kubectl diff: 0 nothing would be killed; 1 something would; 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), o) },
	}
	outputFlag(cmd, &o.output, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "File with a ManagedWorkload as YAML or JSON; - is standard input")
	cmd.Flags().BoolVar(&o.serverSide, "server-side", false, "As kubectl apply --server-side would")
	cmd.Flags().BoolVar(&o.forced, "force-conflicts", false, "With --server-side, force the changes against conflicts")
	cmd.Flags().StringVar(&o.fieldManager, "field-manager", "", "Name of the manager that would apply; kubectl's if not given")
	return cmd
}

// planAnswer is what plan prints.
type planAnswer struct {
	typeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// New: the ManagedWorkload does not exist yet.
	New bool `json:"new"`
	*forecast.Forecast
}

func (a *app) plan(ctx context.Context, o planOptions) error {
	if o.file == "" {
		return errors.New("give -f FILE")
	}
	data, err := a.readFile(o.file)
	if err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	wanted, err := c.decode(data, a.flags.Namespace != nil && *a.flags.Namespace != "")
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	after, isNew, err := c.applied(ctx, wanted, o)
	if err != nil {
		return err
	}
	in, err := c.forecastInput(ctx, after)
	if err != nil {
		return err
	}
	in.Now = a.now()
	answer := planAnswer{typed("Plan"), after.Namespace, after.Name, isNew, forecast.Compute(in)}
	if o.output != "" {
		err = write(a.Out, o.output, &answer)
	} else {
		err = answer.print(terminal.New(a.Out), after)
	}
	if err == nil && answer.Kills > 0 {
		err = errNo{}
	}
	return err
}

// decode reads the ManagedWorkload of a file, strictly.
func (c *cluster) decode(data []byte, namespaced bool) (*unstructured.Unstructured, error) {
	typed := &v1alpha1.ManagedWorkload{}
	if err := yaml.UnmarshalStrict(data, typed); err != nil {
		return nil, err
	}
	switch {
	case typed.Kind != "ManagedWorkload" || typed.GroupVersionKind().Group != v1alpha1.GroupVersion.Group:
		return nil, fmt.Errorf("want one ManagedWorkload, not %q of %q", typed.Kind, typed.APIVersion)
	case typed.Name == "":
		return nil, errors.New("metadata.name is missing")
	case namespaced && typed.Namespace != "" && typed.Namespace != c.namespace:
		return nil, fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. You must pass '--namespace=%s' to perform this operation",
			typed.Namespace, c.namespace, typed.Namespace)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &object.Object); err != nil {
		return nil, err
	}
	if typed.Namespace != "" {
		c.namespace = typed.Namespace
	}
	object.SetNamespace(c.namespace)
	return object, nil
}

// applied is what the object would be, by a dry run of what kubectl apply does.
func (c *cluster) applied(ctx context.Context, wanted *unstructured.Unstructured, o planOptions) (after *v1alpha1.ManagedWorkload, isNew bool, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	isNew = apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return nil, false, err
	}
	result := wanted.DeepCopy()
	switch {
	case o.serverSide:
		err = c.applyServerSide(ctx, result, o)
	case isNew:
		err = c.Create(ctx, result, client.DryRunAll, client.FieldOwner(manager(o, "kubectl-client-side-apply")))
	default:
		result = live.DeepCopy()
		err = c.applyClientSide(ctx, wanted, live, result, o)
	}
	if err != nil {
		return nil, isNew, err
	}
	after = &v1alpha1.ManagedWorkload{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, after); err != nil {
		return nil, isNew, fmt.Errorf("read the answer of the API server: %w", err)
	}
	return after, isNew, nil
}

func manager(o planOptions, kubectls string) string {
	if o.fieldManager != "" {
		return o.fieldManager
	}
	return kubectls
}

func (c *cluster) applyServerSide(ctx context.Context, into *unstructured.Unstructured, o planOptions) error {
	data, err := json.Marshal(into)
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(manager(o, "kubectl"))}
	if o.forced {
		options = append(options, client.ForceOwnership)
	}
	return c.Patch(ctx, into, client.RawPatch(types.ApplyPatchType, data), options...)
}

// applyClientSide makes the patch from the object that was applied last, the file and what
// is there, so that a field that something else has set (paused, restartedAt) stays.
func (c *cluster) applyClientSide(ctx context.Context, wanted, live, into *unstructured.Unstructured, o planOptions) error {
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	modified, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	current, err := json.Marshal(live)
	if err != nil {
		return err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	return c.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(manager(o, "kubectl-client-side-apply")))
}

// forecastInput reads what belongs to a ManagedWorkload, and the nodes if that is allowed.
func (c *cluster) forecastInput(ctx context.Context, after *v1alpha1.ManagedWorkload) (forecast.Input, error) {
	in := forecast.Input{After: after, Nodes: []corev1.Node{}}
	list := &corev1.NodeList{}
	err := c.pages(ctx, list, func() error {
		for i := range list.Items {
			list.Items[i].Status, list.Items[i].ManagedFields = corev1.NodeStatus{}, nil
		}
		in.Nodes = append(in.Nodes, list.Items...)
		list.Items = nil
		return nil
	})
	switch {
	case apierrors.IsForbidden(err):
		in.Nodes = nil
	case err != nil:
		return in, fmt.Errorf("list Nodes: %w", err)
	}
	if in.Shims, err = c.shims(ctx); err != nil {
		return in, err
	}
	if in.Revisions, err = c.revisions(ctx, after); err != nil {
		return in, err
	}
	in.NodeWorkloads, err = c.nodeWorkloads(ctx, after.Name, func(nw *v1alpha1.NodeWorkload) { nw.ManagedFields, nw.Status.Kills = nil, nil })
	return in, err
}

// shims are the nodes that ever had a shim, by their Leases; nil if they cannot be seen.
func (c *cluster) shims(ctx context.Context) (map[string]bool, error) {
	shims := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("LeaseList"))
	err := c.pages(ctx, list, func() error {
		for _, lease := range list.Items {
			if node, ok := strings.CutPrefix(lease.Name, v1alpha1.LeaseNamePrefix); ok {
				shims[node] = true
			}
		}
		list.Items = nil
		return nil
	}, client.InNamespace(v1alpha1.DefaultNamespace))
	switch {
	case apierrors.IsForbidden(err), err == nil && len(shims) == 0:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list Leases of shims: %w", err)
	}
	return shims, nil
}
