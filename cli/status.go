// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// rolloutStatus is how far a roll-out is.
type rolloutStatus struct {
	typeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Complete: every node that the roll-out may change has the update, and is available.
	Complete bool `json:"complete"`
	// Failed: it does not complete by itself.
	Failed bool `json:"failed"`
	// Message is what kubectl would say.
	Message string `json:"message"`

	UpdateRevision  string `json:"updateRevision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Desired         int32  `json:"desiredNodes"`
	Updated         int32  `json:"updatedNodes"`
	Available       int32  `json:"availableNodes"`
	Unreachable     int32  `json:"unreachableNodes"`
}

// statusOptions are the flags of rollout status.
type statusOptions struct {
	output   string
	watching bool
	timeout  time.Duration
}

func (a *app) statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Watch a roll-out until it is complete",
		Long: `Watch a roll-out until every node that it may change has the update and is available:
those that partition, nodeSelector or OnDelete hold, and those whose shim does not respond,
are not waited for; the last line says how many nodes have the update, and what holds the
others. A paused roll-out is waited for.

Exit codes: 0 complete; 1 stalled, not complete within --timeout, or not complete with
--watch=false; 2 error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), args[0], o) },
	}
	outputFlag(cmd, &o.output, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&o.watching, "watch", "w", true, "Watch until the roll-out is complete")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "How long to watch, such as 5m; 0 has no limit")
	return cmd
}

func (a *app) status(ctx context.Context, arg string, o statusOptions) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	p := terminal.New(a.Out)
	s, err := c.awaitRollout(ctx, arg, o.watching, func(s *rolloutStatus) {
		if o.output == "" && !s.Failed {
			p.Printf("%s\n", s.Message)
		}
	})
	if errors.Is(err, context.DeadlineExceeded) && s.Name != "" {
		s.fail("timed out after %s: %s", o.timeout, s.Message)
		err = nil
	}
	if err != nil {
		return err
	}
	return s.finish(a, o.output)
}

// finish prints the last status, and turns it into the exit code.
func (s *rolloutStatus) finish(a *app, output string) error {
	if output != "" {
		if err := write(a.Out, output, s); err != nil {
			return err
		}
	}
	switch {
	case s.Complete:
		return nil
	case s.Failed && output == "":
		return errNo{"error: " + s.Message}
	}
	return errNo{}
}

// awaitRollout watches a ManagedWorkload until its roll-out is complete or has failed.
// progress gets every status with another message.
func (c *cluster) awaitRollout(ctx context.Context, arg string, watching bool, progress func(*rolloutStatus)) (rolloutStatus, error) {
	last := rolloutStatus{}
	for {
		mw, err := c.get(ctx, arg)
		if err != nil {
			return last, contextFirst(ctx, err)
		}
		s := computeRollout(mw)
		if s.Message != last.Message {
			progress(&s)
		}
		last = s
		if s.Complete || s.Failed || !watching {
			return s, nil
		}
		if err := c.awaitChange(ctx, mw); err != nil {
			return last, contextFirst(ctx, err)
		}
	}
}

// contextFirst is the end of the context if that is why something failed.
func contextFirst(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// awaitChange waits until an object has another version than what was read, or may have.
func (c *cluster) awaitChange(ctx context.Context, mw *v1alpha1.ManagedWorkload) error {
	w, err := c.Watch(ctx, &v1alpha1.ManagedWorkloadList{}, client.InNamespace(mw.Namespace), client.MatchingFields{"metadata.name": mw.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: mw.ResourceVersion}})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case event, open := <-w.ResultChan():
		if !open || event.Type == watch.Error {
			return pause(ctx)
		}
		return nil
	}
}

// pause keeps a watch that ends at once from being opened without a break.
func pause(ctx context.Context) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// computeRollout reads a roll-out from the status. The words are those of kubectl rollout
// status. (k8s.io/kubectl pkg/polymorphichelpers/rollout_status.go)
func computeRollout(mw *v1alpha1.ManagedWorkload) rolloutStatus {
	st := &mw.Status
	s := rolloutStatus{
		typeMeta: typed("RolloutStatus"), Namespace: mw.Namespace, Name: mw.Name,
		UpdateRevision: st.UpdateRevision, CurrentRevision: st.CurrentRevision,
		Desired: st.DesiredNodes, Updated: st.UpdatedNodes, Available: st.AvailableNodes, Unreachable: st.UnreachableNodes,
	}
	left := st.UpdatedNodes < st.DesiredNodes-st.UnreachableNodes
	stalled := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionStalled)
	switch {
	case !mw.DeletionTimestamp.IsZero():
		s.fail("managedworkload %q is being deleted", mw.Name)
	case mw.Generation > st.ObservedGeneration:
		s.Message = "Waiting for managedworkload spec update to be observed..."
	case stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == "ProgressDeadlineExceeded":
		s.fail("managedworkload %q exceeded its progress deadline: %s", mw.Name, stalled.Message)
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		s.fail("managedworkload %q is stalled (%s): %s", mw.Name, stalled.Reason, stalled.Message)
	case left && mw.Spec.Paused && !meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionReconciling):
		s.wait("paused with %d out of %d nodes updated", st.UpdatedNodes, st.DesiredNodes)
	case !meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionReconciling) && left:
		s.wait("%d out of %d nodes have been updated", st.UpdatedNodes, st.DesiredNodes)
	case !meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionReconciling):
		s.wait("%d of %d updated nodes are available", st.AvailableNodes, st.DesiredNodes)
	default:
		s.Complete, s.Message = true, s.success(mw, left)
	}
	return s
}

func (s *rolloutStatus) fail(format string, args ...any) {
	s.Failed, s.Message = true, fmt.Sprintf(format, args...)
}

func (s *rolloutStatus) wait(format string, args ...any) {
	s.Message = fmt.Sprintf("Waiting for managedworkload %q rollout to finish: ", s.Name) + fmt.Sprintf(format, args...) + "..."
}

// success is the last line. held: the strategy keeps nodes from the update.
func (s *rolloutStatus) success(mw *v1alpha1.ManagedWorkload, held bool) string {
	text := fmt.Sprintf("managedworkload %q successfully rolled out", s.Name)
	if held {
		text = s.held(&mw.Spec)
	}
	if s.Unreachable > 0 {
		text += fmt.Sprintf(" (%d of %d nodes without a responding shim)", s.Unreachable, s.Desired)
	}
	if n := mw.Status.DrainedNodes; n > 0 {
		text += fmt.Sprintf(" (%d beside them drained)", n)
	}
	return text
}
