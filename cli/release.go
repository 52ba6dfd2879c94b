// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release KILLREQUEST",
		Short: "Start again what kubectl mw kill --action=stop has stopped",
		Long: `Delete a KillRequest that stops containers: the nodes start them again, without a back-off.
KILLREQUEST is its name, which kill has printed and "kubectl get kr" lists; for the name of a
ManagedWorkload, the requests that hold it are listed, and nothing is done. "kubectl delete kr NAME" does the same.
` + exitCodes,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, err := a.connect()
			if err != nil {
				return err
			}
			return release(cmd.Context(), kube, args[0], terminal.New(a.Out))
		},
	}
}

// release deletes a KillRequest that stops containers, and no other.
func release(ctx context.Context, kube *cluster, arg string, p *terminal.Printer) error {
	name := arg
	for _, kind := range []string{"kr/", "killrequest/", "killrequest.managedworkload.dev/"} {
		name = strings.TrimPrefix(name, kind)
	}
	kr := &v1alpha1.KillRequest{}
	err := kube.Get(ctx, client.ObjectKey{Namespace: kube.namespace, Name: name}, kr)
	switch {
	case apierrors.IsNotFound(err):
		return kube.holdsOf(ctx, name, err)
	case err != nil:
		return err
	case kr.Spec.Action != v1alpha1.RequestStop:
		return fmt.Errorf("killrequest %q stops nothing: its action is %s; kubectl delete kr %s ends it", name, kr.Spec.Action, name)
	}
	if err := kube.Delete(ctx, kr, client.Preconditions{UID: &kr.UID}); err != nil {
		return err
	}
	p.Printf("killrequest.managedworkload.dev/%s released\n", name)
	return p.Err()
}

// holdsOf adds to an error which requests stop containers of a ManagedWorkload of that name.
func (c *cluster) holdsOf(ctx context.Context, workload string, err error) error {
	list := &v1alpha1.KillRequestList{}
	if errList := c.List(ctx, list, client.InNamespace(c.namespace)); errList != nil {
		return err // the first one matters
	}
	var names []string
	for i := range list.Items {
		if kr := &list.Items[i]; kr.Spec.WorkloadName == workload && holds(kr) {
			names = append(names, kr.Name)
		}
	}
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w; managedworkload %q is stopped by %s", err, workload, strings.Join(names, ", "))
}

// holds says that a request keeps containers from being started.
func holds(kr *v1alpha1.KillRequest) bool {
	return kr.Spec.Action == v1alpha1.RequestStop && !kr.Spec.DryRun && kr.Status.Phase != v1alpha1.RequestFailed && kr.DeletionTimestamp == nil
}
