// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// classes are the priorities of the priority classes. Without the right to read them, those
// that every cluster has are known.
func (d *drain) classes(ctx context.Context) map[string]int32 {
	known := map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
	list := &schedulingv1.PriorityClassList{}
	if err := d.List(ctx, list); err != nil {
		d.report.Note = fmt.Sprintf("priority classes are not known, and count as 0: %v", err)
		return known
	}
	for _, class := range list.Items {
		known[class.Name] = class.Value
		if class.GlobalDefault {
			known[""] = class.Value
		}
	}
	return known
}

// look returns what still has to end, the lowest priority first. All NodeWorkloads of the node
// are in the report from then on.
func (d *drain) look(ctx context.Context) ([]*drained, error) {
	list := &v1alpha1.NodeWorkloadList{}
	var left []*drained
	d.looked = ""
	err := d.pages(ctx, list, func() error {
		d.looked = cmp.Or(d.looked, list.ResourceVersion) // of the first page
		for i := range list.Items {
			w, err := d.judge(ctx, &list.Items[i])
			if err != nil {
				return err
			}
			if w.State != stateStays {
				left = append(left, w)
			}
		}
		list.Items = nil
		return nil
	}, client.MatchingFields{"spec.nodeName": d.node})
	if err != nil {
		return nil, fmt.Errorf("list the NodeWorkloads of the node: %w", err)
	}
	slices.SortStableFunc(left, inOrder)
	for _, w := range left {
		d.add(w)
	}
	return left, nil
}

// inOrder is the order in which NodeWorkloads end.
func inOrder(a, b *drained) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// add puts a NodeWorkload into the report, and reports whether it was not there.
func (d *drain) add(w *drained) bool {
	if d.known[w.uid] != nil {
		return false
	}
	d.known[w.uid] = w
	d.report.Workloads = append(d.report.Workloads, w)
	return true
}

// judge is a NodeWorkload as a drain sees it, the same each time. One that stays is reported at
// once.
func (d *drain) judge(ctx context.Context, nw *v1alpha1.NodeWorkload) (*drained, error) {
	if w := d.known[nw.UID]; w != nil {
		w.deleting = nw.DeletionTimestamp != nil
		return w, nil
	}
	w, err := d.read(ctx, nw)
	if err == nil && w.State == stateStays && d.add(w) {
		d.progress(w)
	}
	return w, err
}

// read is a NodeWorkload as it is.
func (d *drain) read(ctx context.Context, nw *v1alpha1.NodeWorkload) (*drained, error) {
	w := &drained{
		Namespace: nw.Namespace, Name: nw.Name, Priority: d.priority(&nw.Spec.Template.Spec), GraceSeconds: graceOf(nw),
		State: stateEnds, uid: nw.UID, deleting: nw.DeletionTimestamp != nil, before: map[string]bool{},
	}
	for i := range nw.Status.Kills {
		if kill := &nw.Status.Kills[i]; !w.deleting || kill.StartTime.Time.Before(nw.DeletionTimestamp.Time) {
			w.before[kill.ID] = true
		}
	}
	owner := metav1.GetControllerOfNoCopy(nw)
	if owner == nil {
		w.State, w.Reason = stateStays, "no ManagedWorkload controls it"
		return w, nil
	}
	w.ManagedWorkload = owner.Name
	mw := &v1alpha1.ManagedWorkload{}
	err := d.Get(ctx, client.ObjectKey{Namespace: nw.Namespace, Name: owner.Name}, mw)
	if apierrors.IsNotFound(err) {
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	drainedNode := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1alpha1.TaintDrain, Effect: corev1.TaintEffectPreferNoSchedule}}}}
	t := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: mw.Spec.Template.Spec.Tolerations}}
	if placement.New(t).Place(drainedNode).ShouldContinue && !w.deleting {
		w.State, w.Reason = stateStays, "it tolerates "+v1alpha1.TaintDrain
	}
	return w, nil
}

func (d *drain) priority(spec *corev1.PodSpec) int32 {
	if spec.Priority != nil {
		return *spec.Priority
	}
	return d.priorities[spec.PriorityClassName]
}

// graceOf is the grace period that a deletion leaves, in seconds.
func graceOf(nw *v1alpha1.NodeWorkload) int64 {
	deleted := template.Of(nw)
	deleted.DeletionTimestamp = &metav1.Time{}
	return plan.Termination{}.Grace(template.Pod(deleted), plan.Grace{}).Seconds
}
