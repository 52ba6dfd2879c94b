// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/internal/revision"
)

func (a *app) undoCommand() *cobra.Command {
	var to int64
	cmd := &cobra.Command{
		Use:   "undo NAME",
		Short: "Roll back to the template of an earlier revision",
		Long: `Roll back to the template of an earlier revision: it is copied into spec.template as the user
wrote it, and the change cause of that revision into the annotation kubernetes.io/change-cause. Without
--to-revision, it is the newest revision whose template differs from the present one.
kubectl mw rollout history NAME lists the revisions.

Nothing else of the spec changes. The template rolls out like any other change, within
maxUnavailable, and restarts containers where they differ. A paused ManagedWorkload is not
rolled back: resume it first. Where a file or a pipeline applies the ManagedWorkload, change
it there, too; otherwise it applies the newer template again.
` + exitCodes,
		Example: `  # Roll back to the revision before the present one
  kubectl mw rollout undo web

  # Ask the API server if it would accept revision 3, and change nothing
  kubectl mw rollout undo web --to-revision=3 --dry-run=server`,
		Args: cobra.ExactArgs(1),
	}
	c := a.changeFlags(cmd)
	cmd.Flags().Int64Var(&to, "to-revision", 0, "Number of the revision to roll back to, as rollout history shows it; 0 is the newest one with another template")
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
			object, err := untyped(mw)
			if err != nil {
				return err
			}
			return c.print(object, fmt.Sprintf("skipped rollback (current template already matches revision %d)", target.Spec.Revision))
		}
		users, err := revision.User(&target.Spec)
		if err != nil {
			return fmt.Errorf("read the user's template of revision %d: %w", target.Spec.Revision, err)
		}
		template.RemoveDefaults(users)
		operations := append(causeOf(target, mw), operation{"replace", "/spec/template", users})
		return c.apply(cmd.Context(), kube, mw, "rolled back", operations...)
	}
	return cmd
}

// causeOf gives a ManagedWorkload the change cause of a revision, or none, so that the words
// for what is taken back do not stay.
func causeOf(target *v1alpha1.ManagedWorkloadRevision, mw *v1alpha1.ManagedWorkload) []operation {
	const path = "/metadata/annotations"
	member := path + "/" + strings.ReplaceAll(annotationChangeCause, "/", "~1")
	cause, has := target.Annotations[annotationChangeCause]
	_, had := mw.Annotations[annotationChangeCause]
	switch {
	case has && mw.Annotations == nil:
		return []operation{{"add", path, map[string]string{annotationChangeCause: cause}}}
	case has:
		return []operation{{"add", member, cause}}
	case had:
		return []operation{{"remove", member, nil}}
	}
	return nil
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
