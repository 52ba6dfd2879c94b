// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/internal/revision"
)

// admitting lets a webhook change each Pod that is asked about, or refuse it.
func admitting(webhook func(*corev1.Pod) error) interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if pod, ok := o.(*corev1.Pod); ok {
			return webhook(pod)
		}
		return c.Create(ctx, o, opts...)
	}}
}

func (b *bench) revisions() []v1alpha1.ManagedWorkloadRevision {
	b.t.Helper()
	list := &v1alpha1.ManagedWorkloadRevisionList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

func (b *bench) nodeWorkload() *v1alpha1.NodeWorkload {
	b.t.Helper()
	nw := runningNodeWorkload("mw")
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
		b.t.Fatal(err)
	}
	return nw
}

// What runs is what was admitted, and an answer that is another one each time changes
// nothing, nor does the loss of the revision or a restart of the manager.
func TestWhatRunsIsWhatWasAdmitted(t *testing.T) {
	asked := 0
	b := newBench(t, admitting(func(p *corev1.Pod) error {
		asked++
		p.Spec.NodeSelector = map[string]string{"pool": "tenants"}
		p.Annotations = map[string]string{"answer": fmt.Sprint(asked)}
		return nil
	}), workloadInMemory(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "tenants"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	step := func() {
		t.Helper()
		if _, _, err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	step()
	first := b.nodeWorkload()
	if first.Spec.Template.Annotations["answer"] != "1" || first.Spec.Template.Spec.NodeSelector["pool"] != "tenants" || first.Labels[v1alpha1.LabelRevision] != revisionHash() {
		t.Errorf("labels %v, template %+v", first.Labels, first.Spec.Template)
	}
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d NodeWorkloads, error %v, want one on the node that was selected by admission", len(list.Items), err)
	}
	goesBy := b.fleet.Shares.RollOut(workloadInMemory().UID)
	for _, node := range b.fleet.Nodes.All() {
		if p := goesBy.Place(node, nil); p.ShouldRun != (node.Name == "n1") {
			t.Errorf("KillRequests go by %+v on %s, not by what was admitted", p, node.Name)
		}
	}
	made := b.revisions()
	if len(made) != 1 || made[0].Spec.Revision != 1 || !metav1.IsControlledBy(&made[0], workloadInMemory()) {
		t.Fatalf("revisions %+v", made)
	}
	b.admission = admission.NewJudge(b.client, admission.Options{NoTokens: true})
	step()
	_, mw, err := b.reconcile()
	if text := message(mw, v1alpha1.ConditionAccepted); err != nil || !strings.Contains(text, "admission would change the template now; what it admitted stays") {
		t.Errorf("error %v, Accepted: %q", err, text)
	}
	if err := b.client.Delete(t.Context(), &made[0]); err != nil {
		t.Fatal(err)
	}
	b.admission = admission.NewJudge(b.client, admission.Options{NoTokens: true})
	step()
	step()
	if diff := cmp.Diff(first.Spec, b.nodeWorkload().Spec); diff != "" || asked != 3 {
		t.Errorf("asked %d times, want once for each manager, and what runs has changed (-before +after):\n%s", asked, diff)
	}
	again := b.revisions()
	if len(again) != 1 {
		t.Fatalf("%d revisions, want the one that was deleted", len(again))
	}
	for what, r := range map[string]*v1alpha1.ManagedWorkloadRevision{"deleted": &made[0], "made again": &again[0]} {
		if diff := cmp.Diff(first.Spec.Template, r.Spec.Template); diff != "" {
			t.Errorf("the revision, %s, is not what runs (-want +got):\n%s", what, diff)
		}
		if user, err := revision.User(&r.Spec); err != nil || template.Hash(user) != revisionHash() {
			t.Errorf("the revision, %s, has another user's template: %+v, error %v", what, user, err)
		}
	}
}

// A revision that is rolled out again has the words of the change that did it, and none of
// the roll-out before.
func TestChangeCauseOfARevisionRolledOutAgain(t *testing.T) {
	for name, cause := range map[string]string{"with another": "back to the first", "without": ""} {
		t.Run(name, func(t *testing.T) {
			b := newFleet(t, interceptor.Funcs{})
			apply := func(to, cause string) {
				mw := b.workload()
				mw.Annotations = map[string]string{annotationChangeCause: cause}
				if err := b.client.Update(t.Context(), mw); err != nil {
					t.Fatal(err)
				}
				b.change(image(to))
				for range 7 {
					b.turn()
				}
			}
			apply("app:9", "try 9")
			apply("app:10", "try 10")
			apply("app:9", cause)
			want := map[int64]string{1: "", 3: "try 10", 4: cause}
			got := map[int64]string{}
			for _, revision := range b.revisions() {
				got[revision.Spec.Revision] = revision.Annotations[annotationChangeCause]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("change causes by revision (-want +got):\n%s", diff)
			}
		})
	}
}

// A namespace that became stricter keeps what runs, gives new nodes nothing, and the
// status says why.
func TestAdmissionThatRefusesNow(t *testing.T) {
	refuse := false
	b := newBench(t, admitting(func(p *corev1.Pod) error {
		if refuse {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.Name, errors.New("violates PodSecurity"))
		}
		return nil
	}), append(nodeInMemory(), workloadInMemory())...)
	if _, _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	before := b.nodeWorkload()
	refuse = true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := b.client.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	const words = `what runs stays and no other node gets the template, because admission would refuse it now: pods "web" is forbidden: violates PodSecurity`
	_, mw, err := b.reconcile()
	if text := message(mw, v1alpha1.ConditionAccepted); err != nil || !strings.Contains(text, words) {
		t.Errorf("error %v, Accepted: %q", err, text)
	}
	if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}); err != nil {
		t.Fatal(err)
	}
	_, mw, err = b.reconcile()
	if text := message(mw, v1alpha1.ConditionStalled); err != nil || !strings.Contains(text, "1 node without the current template; "+words) {
		t.Errorf("error %v, Stalled: %q", err, text)
	}
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(t.Context(), list); err != nil || len(list.Items) != 1 || cmp.Diff(before.Spec, list.Items[0].Spec) != "" {
		t.Errorf("NodeWorkloads %+v, error %v", list.Items, err)
	}
}

// A manager that has just begun asks, too, and a template that was admitted once does not
// come back after its namespace became stricter.
func TestEarlierTemplateIsRefusedNow(t *testing.T) {
	refuse := false
	b := newBench(t, admitting(func(p *corev1.Pod) error {
		if refuse && p.Spec.Containers[0].Image != "app:3" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.Name, errors.New("violates PodSecurity"))
		}
		return nil
	}), append(nodeInMemory(), workloadInMemory(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})...)
	change := func(image string) {
		t.Helper()
		_, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		mw.Spec.Template.Spec.Containers[0].Image = image
		mw.Generation++
		if err := b.client.Update(t.Context(), mw); err != nil {
			t.Fatal(err)
		}
	}
	first := workloadInMemory().Spec.Template.Spec.Containers[0].Image
	change("app:3")
	// One that takes long to end keeps the first template's revision.
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelNode: "n2"}); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d NodeWorkloads of n2, error %v", len(list.Items), err)
	}
	if err := b.client.Delete(t.Context(), &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	change(first)
	mw := &v1alpha1.ManagedWorkload{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(workloadInMemory()), mw); err != nil {
		t.Fatal(err)
	}
	mw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{MaxSeconds: new(int32(7))}
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	refuse = true
	b.admission = admission.NewJudge(b.client, admission.Options{NoTokens: true})
	for range 2 {
		_, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		if text := message(mw, v1alpha1.ConditionStalled); !strings.Contains(text, "1 node without the current template; ") {
			t.Errorf("Stalled: %q", text)
		}
	}
	if got := b.nodeWorkload().Spec.Template.Spec.Containers[0].Image; got != "app:3" {
		t.Errorf("image %q, want the one that is still admitted", got)
	}
	refuse = false
	b.admission = admission.NewJudge(b.client, admission.Options{NoTokens: true})
	b.drain(eventPutBack)
	if _, _, err := b.reconcile(); err != nil || b.nodeWorkload().Spec.Template.Spec.Containers[0].Image != first {
		t.Errorf("error %v, image %q, want %q", err, b.nodeWorkload().Spec.Template.Spec.Containers[0].Image, first)
	}
	if got := b.drain(eventPutBack); len(got) != 0 {
		t.Errorf("events %q, want none: nothing was changed by hand", got)
	}
}

// A changed template has a revision of its own; one that no node has any more goes, above
// the history limit, and all go with the object.
func TestRevisionsComeAndGo(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
	_, mw, err := b.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	mw.Spec.Template.Labels, mw.Spec.RevisionHistoryLimit, mw.Generation = map[string]string{"another": "one"}, new(int32(0)), 2
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first is still on the node when the second is made
		if _, mw, err = b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if made := b.revisions(); len(made) != 1 || made[0].Spec.Revision != 2 || made[0].Spec.RolledOut {
		t.Errorf("revisions %+v", made)
	}
	b.report()
	for range 3 {
		if _, mw, err = b.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if made := b.revisions(); len(made) != 1 || made[0].Spec.Revision != 2 || !made[0].Spec.RolledOut || mw.Status.CurrentRevision != mw.Status.UpdateRevision {
		t.Errorf("revisions %+v, current %s, update %s", made, mw.Status.CurrentRevision, mw.Status.UpdateRevision)
	}
	if err := b.client.Delete(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	nw := b.nodeWorkload()
	nw.Finalizers = nil
	if err := b.client.Update(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _ = b.Reconcile(t.Context(), request("default", "web"))
	}
	if left := b.revisions(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// The revision of what a node runs stays, whatever came since: a manager that restarts knows by it what runs.
func TestRevisionThatANodeRunsStays(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
	_, mw, err := b.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	b.report(b.nodeWorkload().Spec.NodeName) // it is not ready, so that the roll-out does not end
	for i, label := range []string{"b", "c"} {
		mw.Spec.Template.Spec.Containers[0].Image, mw.Spec.Template.Labels = "bad:1", map[string]string{"change": label}
		mw.Spec.RevisionHistoryLimit, mw.Generation = new(int32(0)), int64(i+2)
		if err := b.client.Update(t.Context(), mw); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, mw, err = b.reconcile(); err != nil {
				t.Fatal(err)
			}
			b.report()
		}
	}
	var numbers []int64
	for _, r := range b.revisions() {
		numbers = append(numbers, r.Spec.Revision)
	}
	if slices.Sort(numbers); !slices.Equal(numbers, []int64{1, 3}) {
		t.Errorf("revisions %d, want what runs and what is wanted", numbers)
	}
}

// revisionHash identifies the current template as its revision does: with its defaults.
func revisionHash() string {
	t := currentTemplate.DeepCopy()
	template.SetDefaults(t)
	return template.Hash(t)
}
