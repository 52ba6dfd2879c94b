// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func (a *app) undoCommand() *cobra.Command {
	var to int64
	cmd := &cobra.Command{
		Use:   "undo NAME",
		Short: "Go back to the template of an earlier revision",
		Long: `Put the template of an earlier revision back into the ManagedWorkload, as its user wrote
it: that of --to-revision, or of the revision before the present one. Other fields of the
spec, such as the strategy, stay. It is rolled out like any other change.
` + exitCodes,
		Args: cobra.ExactArgs(1),
	}
	c := a.changeFlags(cmd)
	cmd.Flags().Int64Var(&to, "to-revision", 0, "The revision to go back to; 0 is the one before the present one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kube, mw, err := a.connectAndGet(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if mw.Spec.Paused {
			return fmt.Errorf("you cannot rollback a paused managedworkload; resume it first with 'kubectl mw rollout resume %s' and try again", mw.Name)
		}
		revisions, err := kube.revisions(cmd.Context(), mw)
		if err != nil {
			return err
		}
		target, err := chooseRevision(revisions, hashOf(mw), to)
		if err != nil {
			return err
		}
		if target.Labels[v1alpha1.LabelRevision] == hashOf(mw) {
			return c.print(mw.Name, fmt.Sprintf("skipped rollback (current template already matches revision %d)", target.Spec.Revision))
		}
		users := target.Spec.Template.DeepCopy()
		template.RemoveDefaults(users)
		return c.apply(cmd.Context(), kube, mw, "rolled back", operation{"replace", "/spec/template", users})
	}
	return cmd
}

// chooseRevision returns the revision of a number, or for 0 the newest one that has not
// the present template. revisions are the newest first.
func chooseRevision(revisions []v1alpha1.ManagedWorkloadRevision, present string, number int64) (*v1alpha1.ManagedWorkloadRevision, error) {
	for i := range revisions {
		r := &revisions[i]
		if number == r.Spec.Revision || number == 0 && r.Labels[v1alpha1.LabelRevision] != present {
			return r, nil
		}
	}
	if number == 0 {
		return nil, errors.New("no rollout history found to go back to")
	}
	return nil, fmt.Errorf("unable to find specified revision %d in history", number)
}
