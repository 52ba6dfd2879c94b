// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestPauseAndResume(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	const name = "managedworkload.managedworkload.dev/web "
	run(t, ns, "", "rollout", "pause", "nothing").want(t, ExitError, "", `"nothing" not found`)
	run(t, ns, "", "rollout", "resume", "web").want(t, ExitError, "", `"web" is not paused`)
	run(t, ns, "", "rollout", "pause", "mw/web", "--dry-run=client").want(t, ExitOK, name+"paused (dry run)\n", "")
	run(t, ns, "", "rollout", "pause", "web", "--dry-run=server").want(t, ExitOK, name+"paused (server dry run)\n", "")
	if reread(t, mw).Spec.Paused {
		t.Fatal("a dry run paused")
	}
	run(t, ns, "", "rollout", "pause", "managedworkload/web").want(t, ExitOK, name+"paused\n", "")
	if !reread(t, mw).Spec.Paused {
		t.Error("it is not paused")
	}
	run(t, ns, "", "rollout", "pause", "web").want(t, ExitError, "", `"web" is already paused`)
	run(t, ns, "", "rollout", "restart", "web").want(t, ExitError, "", "can't restart paused managedworkload (run rollout resume first)")
	run(t, ns, "", "rollout", "undo", "web").want(t, ExitError, "", "you cannot rollback a paused managedworkload; resume it first")
	run(t, ns, "", "rollout", "resume", "web").want(t, ExitOK, name+"resumed\n", "")
	if reread(t, mw).Spec.Paused {
		t.Error("it is still paused")
	}
	if spec := rawSpec(t, mw); spec["paused"] != nil {
		t.Errorf("resume did not remove spec.paused: %v", spec)
	}
	run(t, ns, "", "rollout", "pause", "deployment/web").want(t, ExitError, "", "is not about a ManagedWorkload")
	run(t, ns, "", "rollout", "pause", "web", "--dry-run=maybe").want(t, ExitError, "", "--dry-run must be")
}

// rawSpec is the spec as the API server stores it.
func rawSpec(t *testing.T, mw *v1alpha1.ManagedWorkload) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ManagedWorkload"))
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(mw), u); err != nil {
		t.Fatal(err)
	}
	spec, _, err := unstructured.NestedMap(u.Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// -o prints the changed object as kubectl rollout does, also when nothing is stored.
func TestChangeOutput(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	const short = "managedworkload.managedworkload.dev/web\n"
	paused := func(r result) bool {
		t.Helper()
		got := &v1alpha1.ManagedWorkload{}
		if err := yaml.Unmarshal([]byte(r.out), got); err != nil || r.code != ExitOK || r.err != "" {
			t.Fatalf("%+v: %v", r, err)
		}
		if got.Kind != "ManagedWorkload" || got.APIVersion != v1alpha1.GroupVersion.String() || got.UID != mw.UID || got.ManagedFields != nil {
			t.Errorf("it printed %+v", got)
		}
		return got.Spec.Paused
	}
	for _, dryRun := range []string{"client", "server", "none"} {
		r := run(t, ns, "", "rollout", "pause", "web", "-o", "json", "--dry-run="+dryRun)
		if !paused(r) || !strings.HasPrefix(r.out, "{") {
			t.Errorf("dry run %s: %+v", dryRun, r)
		}
		if got := reread(t, mw).Spec.Paused; got != (dryRun == "none") {
			t.Errorf("after the dry run %s, paused is %t", dryRun, got)
		}
	}
	run(t, ns, "", "rollout", "resume", "web", "--dry-run=client", "-o", "name").want(t, ExitOK, short, "")
	run(t, ns, "", "rollout", "resume", "web", "-o", "jsonn").want(t, ExitError, "", "unable to match a printer")
	if r := run(t, ns, "", "rollout", "resume", "web", "-o", "yaml"); paused(r) || strings.Contains(r.out, "paused:") || !strings.HasPrefix(r.out, "apiVersion: ") {
		t.Errorf("%+v", r)
	}
	if reread(t, mw).Spec.Paused {
		t.Error("it is still paused")
	}
	run(t, ns, "", "rollout", "restart", "web", "-o", "name").want(t, ExitOK, short, "")
	one := revisionOf(t, mw, 1, "app:v1")
	run(t, ns, "", "rollout", "undo", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}").want(t, ExitOK, "app:v1", "")
	r := run(t, ns, "", "rollout", "undo", "web", "--to-revision=1", "-o", "name")
	r.want(t, ExitOK, short, "") // it has that template already
	if hashOf(reread(t, mw)) != one.Labels[v1alpha1.LabelRevision] {
		t.Error("it was not rolled back")
	}
}

func TestRestart(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	mw.Spec.Template.Labels = map[string]string{"app": "web"}
	if err := api.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with and without annotations
		before := reread(t, mw).Spec.Template.Annotations[v1alpha1.AnnotationRestartedAt]
		r := run(t, ns, "", "rollout", "restart", "web")
		for strings.Contains(r.err, "within the past second") {
			time.Sleep(100 * time.Millisecond)
			r = run(t, ns, "", "rollout", "restart", "web")
		}
		r.want(t, ExitOK, "managedworkload.managedworkload.dev/web restarted\n", "")
		got := reread(t, mw).Spec.Template
		if at, err := time.Parse(time.RFC3339, got.Annotations[v1alpha1.AnnotationRestartedAt]); err != nil || time.Since(at) > time.Minute {
			t.Errorf("restartedAt %q: %v", got.Annotations[v1alpha1.AnnotationRestartedAt], err)
		}
		if got.Annotations[v1alpha1.AnnotationRestartedAt] == before || got.Labels["app"] != "web" || got.Spec.Containers[0].Image != "app:v1" {
			t.Errorf("template after the restart: %+v", got)
		}
	}
	if manager := managerOf(mw); manager != defaultFieldManager {
		t.Errorf("the change is that of %q", manager)
	}
}

// managerOf is the field manager that changed something last.
func managerOf(mw *v1alpha1.ManagedWorkload) string {
	last := metav1.ManagedFieldsEntry{}
	for _, e := range mw.ManagedFields {
		if last.Time == nil || !e.Time.Before(last.Time) {
			last = e
		}
	}
	return last.Manager
}

func TestUndoAndHistory(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v3")
	run(t, ns, "", "rollout", "undo", "web").want(t, ExitError, "", "no rollout history found")
	run(t, ns, "", "rollout", "history", "web").want(t, ExitOK, "No rollout history found.\n", "")
	one, two, three := revisionOf(t, mw, 1, "app:v1"), revisionOf(t, mw, 2, "app:v2"), revisionOf(t, mw, 3, "app:v3")
	two.Annotations = map[string]string{annotationChangeCause: "new \x1b[31mimage"}
	if err := api.Update(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	// A revision of an earlier object of that name is not one of this.
	stranger := one.DeepCopy()
	stranger.ObjectMeta = owned(mw, "web-stranger", "stranger")
	stranger.OwnerReferences[0].UID = "another"
	create(t, stranger)
	for i, node := range []string{"n1", "n2", "n3"} {
		nodeWorkloadOf(t, mw, node, []*v1alpha1.ManagedWorkloadRevision{one, three, three}[i])
	}
	h := run(t, ns, "", "rollout", "history", "web")
	var rows []string
	for line := range strings.Lines(h.out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"managedworkload.managedworkload.dev/web", "REVISION HASH NODES ROLLED-OUT AGE CHANGE-CAUSE",
		"1 " + one.Labels[v1alpha1.LabelRevision] + " 1 true", "2 " + two.Labels[v1alpha1.LabelRevision] + " 0 false",
		"3* " + three.Labels[v1alpha1.LabelRevision] + " 2 false", "* is the revision of spec.template.",
	}
	if len(rows) != len(want) {
		t.Fatalf("history:\n%s%s", h.out, h.err)
	}
	for i := range want {
		if !strings.HasPrefix(rows[i], want[i]) {
			t.Errorf("line %d of the history is %q, want %q", i, rows[i], want[i])
		}
	}
	if !strings.HasSuffix(rows[3], `new \u001b[31mimage`) || !strings.HasSuffix(rows[2], "<none>") {
		t.Errorf("change causes in\n%s", h.out)
	}
	if r := run(t, ns, "", "rollout", "history", "web", "--revision=2"); !strings.Contains(r.out, "revision #2") || !strings.Contains(r.out, "image: app:v2") {
		t.Errorf("revision 2: %+v", r)
	}
	run(t, ns, "", "rollout", "history", "web", "--revision=9").want(t, ExitError, "", "unable to find the specified revision 9")

	const name = "managedworkload.managedworkload.dev/web "
	run(t, ns, "", "rollout", "undo", "web", "--to-revision=3").want(t, ExitOK, name+"skipped rollback (current template already matches revision 3)\n", "")
	run(t, ns, "", "rollout", "undo", "web", "--to-revision=9").want(t, ExitError, "", "unable to find specified revision 9 in history")
	run(t, ns, "", "rollout", "undo", "web", "--dry-run=server").want(t, ExitOK, name+"rolled back (server dry run)\n", "")
	image := func() string { return reread(t, mw).Spec.Template.Spec.Containers[0].Image }
	if got := image(); got != "app:v3" {
		t.Fatalf("a dry run rolled back to %s", got)
	}
	run(t, ns, "", "rollout", "undo", "web").want(t, ExitOK, name+"rolled back\n", "")
	if got := image(); mw.Spec.Template.Spec.SchedulerName != "" {
		t.Errorf("%s was rolled back with its defaults: %+v", got, mw.Spec.Template.Spec)
	}
	if got := mw.Annotations[annotationChangeCause]; got != "new \x1b[31mimage" {
		t.Errorf("change cause %q, want that of revision 2", got)
	}
	if got := image(); got != "app:v2" || hashOf(mw) != two.Labels[v1alpha1.LabelRevision] {
		t.Errorf("rolled back to %s", got)
	}
	run(t, ns, "", "rollout", "undo", "web", "--to-revision=1").want(t, ExitOK, name+"rolled back\n", "")
	if got := image(); got != "app:v1" {
		t.Errorf("rolled back to %s", got)
	}
	if got, has := mw.Annotations[annotationChangeCause]; has {
		t.Errorf("change cause %q, want none, as revision 1", got)
	}
}

// History shows, and undo takes back, what the user wrote and not what admission made of it.
func TestUndoAndHistoryOfAnAdmittedTemplate(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v2")
	one := revisionOf(t, mw, 1, "app:v1", func(admitted *corev1.PodTemplateSpec) {
		admitted.Annotations = map[string]string{annotationChangeCause: "admission"}
		admitted.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "INJECTED", Value: "1"}}
		admitted.Spec.TerminationGracePeriodSeconds = nil
	})
	if r := run(t, ns, "", "rollout", "history", "web"); r.code != ExitOK || !strings.Contains(r.out, "<none>") {
		t.Errorf("history: %+v", r)
	}
	r := run(t, ns, "", "rollout", "history", "web", "--revision=1")
	if r.code != ExitOK || strings.Contains(r.out, "INJECTED") || !strings.Contains(r.out, "terminationGracePeriodSeconds: 30") {
		t.Errorf("revision 1: %+v", r)
	}
	run(t, ns, "", "rollout", "undo", "web", "--dry-run=client", "-o", "jsonpath={.spec.template.spec.containers[0].env}").want(t, ExitOK, "", "")
	run(t, ns, "", "rollout", "undo", "web").want(t, ExitOK, "managedworkload.managedworkload.dev/web rolled back\n", "")
	if diff := cmp.Diff(templateOf("app:v1"), reread(t, mw).Spec.Template); diff != "" || hashOf(mw) != one.Labels[v1alpha1.LabelRevision] {
		t.Errorf("rolled back to (-want +got):\n%s", diff)
	}
}

// A revision whose patch is damaged hides no other: history lists all and says which one cannot be
// read, and undo fails for that one alone.
func TestUndoAndHistoryWithADamagedRevision(t *testing.T) {
	const words = "read the user's template of revision 2: apply userPatch: "
	ns := newNamespace(t)
	mw := web(t, ns, "app:v3")
	revisionOf(t, mw, 1, "app:v1")
	two := revisionOf(t, mw, 2, "app:v2")
	two.Annotations = map[string]string{annotationChangeCause: "another image"}
	two.Spec.UserPatch = `[{"op":"remove","path":"/no/such"}]`
	if err := api.Update(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	revisionOf(t, mw, 3, "app:v3")

	h := run(t, ns, "", "rollout", "history", "web")
	lines := strings.Split(strings.TrimSpace(h.out), "\n")
	if h.code != ExitOK || h.err != "" || len(lines) != 7 || !strings.HasPrefix(lines[2], "1 ") || !strings.HasSuffix(lines[3], "another image") ||
		!strings.HasPrefix(lines[4], "3* ") || !strings.HasPrefix(lines[6], "Revision 2 cannot be read: apply userPatch: ") {
		t.Errorf("history: %+v", h)
	}
	if r := run(t, ns, "", "rollout", "history", "web", "--revision=1"); r.code != ExitOK || !strings.Contains(r.out, "image: app:v1") {
		t.Errorf("revision 1: %+v", r)
	}
	run(t, ns, "", "rollout", "history", "web", "--revision=2").want(t, ExitError, "", words)
	run(t, ns, "", "rollout", "undo", "web").want(t, ExitError, "", words)
	run(t, ns, "", "rollout", "undo", "web", "--to-revision=1").want(t, ExitOK, "managedworkload.managedworkload.dev/web rolled back\n", "")
}

// What was changed by another meanwhile is not overwritten.
func TestChangeOfWhatWasRead(t *testing.T) {
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	read := mw.DeepCopy()
	mw.Spec.Template.Spec.Containers[0].Image = "app:v2"
	if err := api.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	c := &change{app: &app{}, manager: defaultFieldManager, dryRun: "none"}
	err := c.apply(t.Context(), &cluster{api, ns}, read, "rolled back", operation{"replace", "/spec/template", templateOf("app:v3")})
	if err != errChanged { //nolint:errorlint // It is not wrapped.
		t.Errorf("error %v, want %v", err, errChanged)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(mw), mw); err != nil || mw.Spec.Template.Spec.Containers[0].Image != "app:v2" {
		t.Errorf("image %s, error %v", mw.Spec.Template.Spec.Containers[0].Image, err)
	}
}
