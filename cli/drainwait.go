// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/ends"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// States of a NodeWorkload in the report of a drain.
const (
	stateEnds  = "Ends"
	stateGone  = "Gone"
	stateLeft  = "Left"
	stateStays = "Stays"
)

// drainReport is what drain prints.
type drainReport struct {
	typeMeta
	Node   string `json:"node"`
	DryRun string `json:"dryRun,omitempty"`
	// Complete: all that had to end is gone.
	Complete bool   `json:"complete"`
	Note     string `json:"note,omitempty"`
	// Workloads are the NodeWorkloads in the order in which they end.
	Workloads []*drained `json:"workloads"`
}

// drained is a NodeWorkload of a node that is drained.
type drained struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	ManagedWorkload string `json:"managedWorkload,omitempty"`
	Priority        int32  `json:"priority"`
	GraceSeconds    int64  `json:"graceSeconds"`
	// State is Ends (in a dry run), Gone, Left or Stays, and Reason why it stays or is left.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Ends are how its containers were ended.
	Ends []ends.End `json:"ends,omitempty"`

	uid      types.UID
	deleting bool
	// away: the node's shim does not respond.
	away bool
	// before are the IDs of kills that were none of the drain.
	before map[string]bool
}

// await waits until NodeWorkloads are gone, and says of each how it ended.
func (d *drain) await(ctx context.Context, group []*drained) error {
	left := map[types.UID]*drained{}
	for _, w := range group {
		left[w.uid] = w
		if w.deleting { // no event shows how far it is
			d.looked = ""
		}
	}
	for len(left) > 0 {
		if err := d.follow(ctx, left); err != nil {
			return contextFirst(ctx, err)
		}
	}
	return nil
}

// follow watches the NodeWorkloads of the node from where they were looked at, or lists them first,
// until none of left is there or the watch ends.
func (d *drain) follow(ctx context.Context, left map[types.UID]*drained) error {
	version := d.looked
	d.looked = "" // for once: it expires
	if version == "" {
		var err error
		if version, err = d.lookAgain(ctx, left); err != nil || len(left) == 0 {
			return err
		}
	}
	w, err := d.Watch(ctx, &v1alpha1.NodeWorkloadList{}, client.MatchingFields{"spec.nodeName": d.node},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch the NodeWorkloads of the node: %w", err)
	}
	defer w.Stop()
	return d.take(ctx, left, w.ResultChan())
}

// lookAgain notes what became of NodeWorkloads, and returns the resourceVersion of that.
func (d *drain) lookAgain(ctx context.Context, left map[types.UID]*drained) (version string, err error) {
	list := &v1alpha1.NodeWorkloadList{}
	if err := d.List(ctx, list, client.MatchingFields{"spec.nodeName": d.node}); err != nil {
		return "", fmt.Errorf("list the NodeWorkloads of the node: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
		d.see(left, &list.Items[i])
	}
	for uid, w := range left {
		if !there[uid] {
			d.gone(ctx, left, w)
		}
	}
	return list.ResourceVersion, nil
}

// take takes events until none of left is there or the watch ends.
func (d *drain) take(ctx context.Context, left map[types.UID]*drained, events <-chan watch.Event) error {
	for len(left) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-events:
			if !open || event.Type == watch.Error {
				return pause(ctx)
			}
			nw, ok := event.Object.(*v1alpha1.NodeWorkload)
			if !ok {
				continue
			}
			d.see(left, nw)
			if w := left[nw.UID]; w != nil && event.Type == watch.Deleted {
				d.gone(ctx, left, w)
			}
		}
	}
	return nil
}

// see notes what a NodeWorkload reports of its end.
func (d *drain) see(left map[types.UID]*drained, nw *v1alpha1.NodeWorkload) {
	w := left[nw.UID]
	if w == nil {
		return
	}
	withoutTemplate(nw)
	nw.Status.LastExit = nil
	if found := w.ofDrain(ends.Collect(nil, []v1alpha1.NodeWorkload{*nw})); len(found) > 0 {
		w.Ends = found
	}
	w.Reason = ""
	for _, wait := range ends.Waits(nil, []v1alpha1.NodeWorkload{*nw}, "") {
		w.Reason = wait.Text
	}
	if away := meta.IsStatusConditionFalse(nw.Status.Conditions, v1alpha1.ConditionShimResponding); away != w.away {
		if w.away = away; away { // this may take for ever
			d.progress(w)
		}
	}
}

// ofDrain are the ends that are the drain's, the oldest first.
func (w *drained) ofDrain(all []ends.End) []ends.End {
	all = slices.DeleteFunc(all, func(e ends.End) bool {
		return e.Kill == nil || e.NodeWorkload != w.Name || w.before[e.Kill.ID] || e.Kill.Trigger != v1alpha1.TriggerTermination
	})
	slices.Reverse(all)
	return all
}

// gone notes that a NodeWorkload is gone. What it reported last may be in its ManagedWorkload
// only.
func (d *drain) gone(ctx context.Context, left map[types.UID]*drained, w *drained) {
	delete(left, w.uid)
	w.State, w.Reason = stateGone, ""
	if slices.ContainsFunc(w.Ends, func(e ends.End) bool { return e.Kill.Phase != v1alpha1.KillPhaseDone }) || len(w.Ends) == 0 {
		mw := &v1alpha1.ManagedWorkload{}
		if err := d.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.ManagedWorkload}, mw); err == nil {
			if found := w.ofDrain(ends.Collect(mw, nil)); len(found) > 0 {
				w.Ends = found
			}
		}
	}
	d.progress(w)
}

// timedOut marks what is left.
func (d *drain) timedOut() {
	for _, w := range d.report.Workloads {
		if w.State == stateEnds {
			w.State = stateLeft
			d.progress(w)
		}
	}
}

// print says what happened to a NodeWorkload.
func (w *drained) print(p *terminal.Printer) {
	name := fmt.Sprintf("nodeworkload %s/%s (priority %d)", w.Namespace, w.Name, w.Priority)
	switch w.State {
	case stateEnds:
		if w.away {
			p.Printf("%s cannot end yet: the node's shim does not respond\n", name)
			return
		}
		p.Printf("%s would end, grace %ds\n", name, w.GraceSeconds)
	case stateStays:
		p.Printf("%s stays: %s\n", name, w.Reason)
	case stateLeft:
		text := "is still there"
		if w.Reason != "" {
			text += ": " + w.Reason
		}
		p.Printf("%s %s\n", p.Paint(terminal.Yellow, name), text)
	default:
		p.Printf("%s is gone\n", name)
	}
	for i := range w.Ends {
		e := &w.Ends[i]
		p.Printf("  %s: %s after %ds of %ds\n", e.Container, e.Summary, e.Kill.Grace.UsedSeconds, e.Kill.Grace.Seconds)
	}
}

// finish prints the end, and turns it into the exit code.
func (d *drain) finish(a *app, p *terminal.Printer) error {
	if d.output != "" {
		if err := write(a.Out, d.output, &d.report); err != nil {
			return err
		}
	} else {
		d.summarize(p)
	}
	ending := slices.ContainsFunc(d.report.Workloads, func(w *drained) bool { return w.State == stateEnds || w.State == stateLeft })
	switch {
	case d.report.Complete, d.dry() && !ending:
		return p.Err()
	case d.dry(), d.output != "":
		return errors.Join(p.Err(), errNo{})
	}
	return errNo{fmt.Sprintf("error: timed out after %s: node %q is not drained; run the command again, or undrain it", d.timeout, d.node)}
}

func (d *drain) summarize(p *terminal.Printer) {
	if d.report.Note != "" {
		p.Printf("%s\n", d.report.Note)
	}
	switch {
	case d.report.Complete:
		p.Printf("node/%s drained\nto let it run NodeWorkloads again: kubectl mw undrain %s\n", d.node, d.node)
	case d.dry():
		p.Printf("node/%s would be drained%s\n", d.node, map[string]string{"server": " (server dry run)", "client": " (dry run)"}[d.dryRun])
	}
}
