// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// What a person changed is distinguished from what the workload changed.
func TestHandEdits(t *testing.T) {
	entry := func(manager string, second int, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields), Time: &metav1.Time{Time: time.Unix(int64(second), 0)}}
	}
	ours := entry(writes.FieldManager, 1, `{"f:spec":{"f:template":{}},"f:metadata":{"f:labels":{"f:team":{}}}}`)
	edit := entry("kubectl-edit", 2, `{"f:spec":{"f:template":{}}}`)
	now := &wanted{workload: "web", copied: map[string]string{"team": "a"}}
	before := &wanted{workload: "web"}
	good := func(change func(*v1alpha1.NodeWorkload), entries ...metav1.ManagedFieldsEntry) *v1alpha1.NodeWorkload {
		nw := reported("n1", "Running", true).DeepCopy()
		nw.Labels, nw.Finalizers, nw.ManagedFields = now.labels("n1", "new"), []string{v1alpha1.Finalizer}, entries
		change(nw)
		return nw
	}
	image := func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.Containers[0].Image = "other" }
	earlier := func(nw *v1alpha1.NodeWorkload) {
		nw.Spec.Template, nw.Labels[v1alpha1.LabelRevision] = oldTemplate, "old"
	}
	unknown := func(nw *v1alpha1.NodeWorkload) { image(nw); nw.Labels[v1alpha1.LabelRevision] = "gone" }
	noLabel := func(key string) func(*v1alpha1.NodeWorkload) {
		return func(nw *v1alpha1.NodeWorkload) { delete(nw.Labels, key) }
	}
	tests := map[string]struct {
		applied *wanted
		nw      *v1alpha1.NodeWorkload
		want    []string
		wantWho string
	}{
		"as it should be":                      {now, good(func(*v1alpha1.NodeWorkload) {}, ours, edit), nil, ""},
		"an edit":                              {now, good(image, ours, edit), []string{"spec.template"}, "kubectl-edit"},
		"an edit before the manager began":     {nil, good(image, ours, edit), []string{"spec.template"}, "kubectl-edit"},
		"an earlier template":                  {now, good(earlier, ours), nil, ""},
		"an unknown template":                  {now, good(unknown, ours), nil, ""},
		"another revision's label":             {now, good(func(nw *v1alpha1.NodeWorkload) { nw.Labels[v1alpha1.LabelRevision] = "old" }, edit), []string{"label controller-revision-hash"}, ""},
		"a revision with the same template":    {now, good(func(nw *v1alpha1.NodeWorkload) { nw.Labels[v1alpha1.LabelRevision] = "same" }, edit), nil, ""},
		"the revision's label removed":         {now, good(noLabel(v1alpha1.LabelRevision)), []string{"label controller-revision-hash"}, ""},
		"an edit, without managedFields":       {now, good(image), []string{"spec.template"}, ""},
		"a label of ours removed":              {nil, good(noLabel(v1alpha1.LabelNode), ours), []string{"label " + v1alpha1.LabelNode}, ""},
		"a copied label removed":               {now, good(noLabel("team")), []string{"label team"}, ""},
		"a label that the workload has gained": {before, good(noLabel("team")), nil, ""},
		"the finalizer removed":                {nil, good(func(nw *v1alpha1.NodeWorkload) { nw.Finalizers = nil }), []string{"metadata.finalizers"}, ""},
		"another back-off": {
			now, good(func(nw *v1alpha1.NodeWorkload) { nw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{} },
				entry("kubectl-patch", 3, `{"f:spec":{"f:restartBackoff":{}}}`)), []string{"spec.restartBackoff"}, "kubectl-patch",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &scope{hash: "new", wanted: now, memory: memory{applied: tc.applied}, editions: map[string]*edition{
				"new": {revision: "new", hash: currentHash}, "same": {revision: "same", hash: currentHash},
				"old": {revision: "old", hash: template.Hash(&oldTemplate)},
			}}
			edits, who := s.handEdits(fleet.ShareOf(tc.nw, nil), s.update(), tc.nw.ManagedFields)
			var got []string
			for _, p := range edits {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || who != tc.wantWho {
				t.Errorf("edits by %q, want %q (-want +got):\n%s", who, tc.wantWho, diff)
			}
		})
	}
}

// Labels of the workload are on its NodeWorkloads, and follow it without a change of
// what runs.
func TestLabelsAreCopied(t *testing.T) {
	mw := workloadInMemory()
	mw.Labels = map[string]string{"team": "a", "tier": "x", ownKeys + "workload": "no"}
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), mw)...)
	expect := func(what string, want map[string]string) *v1alpha1.NodeWorkload {
		t.Helper()
		if _, _, err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		nw := runningNodeWorkload("mw")
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, nw.Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		return nw
	}
	made := expect("created", map[string]string{v1alpha1.LabelWorkload: "web", v1alpha1.LabelNode: "n1", v1alpha1.LabelRevision: revisionHash(), "team": "a", "tier": "x"})
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(mw), mw); err != nil {
		t.Fatal(err)
	}
	mw.Labels = map[string]string{"team": "b"}
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	changed := expect("changed", map[string]string{v1alpha1.LabelWorkload: "web", v1alpha1.LabelNode: "n1", v1alpha1.LabelRevision: revisionHash(), "team": "b"})
	if diff := cmp.Diff(made.Spec, changed.Spec); diff != "" || len(changed.Annotations) != 0 {
		t.Errorf("the definition changed (-before +after):\n%s%v", diff, changed.Annotations)
	}
	if events := b.drain(eventPutBack); len(events) != 0 {
		t.Errorf("events: %q", events)
	}
}

// A grace period that was set by hand cannot be taken away: an event and a condition
// say so, once.
func TestGraceSetByHandIsSaid(t *testing.T) {
	nw := runningNodeWorkload("mw")
	nw.Spec.DeletionGracePeriodSeconds = ptr.To[int64](4)
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory(), nw)...)
	for _, want := range []int{1, 0} {
		_, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		if text := message(mw, v1alpha1.ConditionAccepted); !strings.Contains(text, "deletionGracePeriodSeconds was set by hand on n1") {
			t.Errorf("Accepted: %q", text)
		}
		if events := b.drain(eventNotPutBack); len(events) != want {
			t.Errorf("events %q, want %d", events, want)
		}
	}
}

// A label that a webhook gives every NodeWorkload is left alone: taking it away again and
// again would change nothing.
func TestImposedLabelsAreLeftAlone(t *testing.T) {
	patches := 0
	b := newBench(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		nw, ok := obj.(*v1alpha1.NodeWorkload)
		if !ok {
			return c.Patch(ctx, obj, patch, opts...)
		}
		patches++
		if err := c.Patch(ctx, obj, patch, opts...); err != nil {
			return err
		}
		nw.Labels["imposed"] = "yes"
		return c.Update(ctx, nw)
	}}, append(nodeInMemory(), workloadInMemory(), runningNodeWorkload("mw"))...)
	for range 3 {
		if _, _, err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if patches != 1 {
		t.Errorf("%d patches, want 1", patches)
	}
}
