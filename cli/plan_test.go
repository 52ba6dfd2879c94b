// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const planFile = `apiVersion: managedworkload.dev/v1alpha1
kind: ManagedWorkload
metadata: {name: web}
spec:
  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}
  template:
    metadata: {annotations: {%s}}
    spec:
      containers: [{name: app, image: 'app:v1'}]
`

// applied makes what kubectl apply of planFile makes, and lets three nodes run it.
func applied(t *testing.T) string {
	t.Helper()
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	mw.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"apiVersion":"managedworkload.dev/v1alpha1","kind":"ManagedWorkload","metadata":{"name":"web","namespace":"` + ns +
		`"},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}}}`}
	if err := api.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	r := revisionOf(t, mw, 1, "app:v1")
	for _, name := range []string{"n1", "n2", "n3"} {
		if err := api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		nodeWorkloadOf(t, mw, name, r)
	}
	return ns
}

const noLease = `The namespace "managedworkload-system" has no Lease of a shim: each node is taken to have a shim. ` +
	"If the manager runs in another namespace, name it with --manager-namespace."

// Every ManagedWorkload of a file is planned, and what is none is named. What is wrong with
// one keeps no other from its answer.
func TestPlanOfSeveralDocuments(t *testing.T) {
	ns := applied(t)
	next := strings.Replace(strings.Replace(planFile, "%s", "", 1), "app:v1", "app:v2", 1)
	other := strings.Replace(next, "name: web", "name: other", 1)
	const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
	file := "# comments alone\n---\n" + next + "---\n" + settings + "---\n" + other
	const left = `-: document 3: kind "ConfigMap" of "v1" is not a ManagedWorkload; not planned` + "\n"

	r := run(t, ns, file, "plan", "-f", "-")
	if r.code != ExitNo || r.err != left || !strings.Contains(r.out, "/web: 3 containers would be killed") || !strings.Contains(r.out, "\n\nmanagedworkload.managedworkload.dev/other: no ") {
		t.Errorf("%+v", r)
	}
	r = run(t, ns, file, "plan", "-f", "-", "-o", "json")
	var list planList
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || list.Kind != "PlanList" || len(list.Items) != 2 || list.Items[0].Kills != 3 || !list.Items[1].New {
		t.Errorf("%v, %+v", err, r)
	}
	asList := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(next), "\n", "\n  ")
	if r := run(t, ns, asList, "plan", "-f", "-"); r.code != ExitNo || !strings.Contains(r.out, "/web: 3 containers would be killed") {
		t.Errorf("of a list: %+v", r)
	}
	r = run(t, ns, next+"---\n"+strings.Replace(other, "name: other", "name: Other", 1), "plan", "-f", "-")
	if r.code != ExitError || !strings.Contains(r.err, "document 2: ") || !strings.Contains(r.out, "/web: 3 containers") {
		t.Errorf("with a bad one: %+v", r)
	}
	run(t, ns, "# nothing\n", "plan", "-f", "-").want(t, ExitError, "", "no ManagedWorkload in it")
}

// Which nodes have a shim is read in the manager's namespace; where that says nothing a note
// does.
func TestPlanReadsLeases(t *testing.T) {
	ns := applied(t)
	other := newNamespace(t)
	create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: v1alpha1.LeaseNamePrefix + "n1"}})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"},
	}}}
	create(t, role)
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
	})
	fresh := strings.Replace(strings.Replace(planFile, "%s", "", 1), "name: web", "name: fresh", 1)
	tests := map[string]struct {
		args      []string
		want, not string
	}{
		"none there":      {want: noLease, not: "ShimNotFound"},
		"named namespace": {args: []string{"--manager-namespace", other}, want: "it never had a shim (ShimNotFound)", not: "Note:"},
		"forbidden":       {args: []string{"--as=tenant"}, want: `Note: You may not list Leases in the namespace "managedworkload-system": each node is taken to have a shim.`, not: "ShimNotFound"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := run(t, ns, fresh, append([]string{"plan", "-f", "-"}, tc.args...)...)
			if r.code != ExitOK || r.err != "" || !strings.Contains(r.out, tc.want) || strings.Contains(r.out, tc.not) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A node on which another object has the name of the NodeWorkload waits, as it does in the manager, also where that
// object is of an earlier ManagedWorkload of the name. What has no controller is adopted.
func TestPlanOfTakenNames(t *testing.T) {
	ns := applied(t)
	mw := reread(t, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}})
	edit := func(node string, change func(*v1alpha1.NodeWorkload)) {
		nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: placement.NodeWorkloadName(mw.Name, node)}}
		change(reread(t, nw))
		if err := api.Update(t.Context(), nw); err != nil {
			t.Fatal(err)
		}
	}
	edit("n1", func(nw *v1alpha1.NodeWorkload) { nw.OwnerReferences[0].UID = "of an earlier one" })
	edit("n2", func(nw *v1alpha1.NodeWorkload) { nw.OwnerReferences, nw.Labels = nil, nil })
	edit("n3", func(nw *v1alpha1.NodeWorkload) { nw.OwnerReferences = nil })
	next := strings.Replace(strings.Replace(planFile, "%s", "", 1), "app:v1", "app:v2", 1)
	r := run(t, ns, next, "plan", "-f", "-")
	if r.code != ExitNo || !strings.Contains(r.out, "/web: 1 container would be killed") ||
		!strings.Contains(r.out, "  n1, n2: another object has the name of its NodeWorkload (NameConflict)\n") {
		t.Errorf("%+v", r)
	}
}

// The dry run needs the rights of the apply: to patch, and to create what is new.
func TestPlanRights(t *testing.T) {
	ns := applied(t)
	same := strings.Replace(planFile, "%s", "", 1)
	fresh := strings.Replace(same, "name: web", "name: fresh", 1)
	grant := func(user string, verbs ...string) {
		create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"managedworkloads"}, Verbs: verbs},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"nodeworkloads", "managedworkloadrevisions"}, Verbs: []string{"list"}},
		}})
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		})
	}
	grant("reader", "get", "list", "watch")
	grant("patcher", "get", "patch")
	grant("author", "get", "patch", "create")
	tests := map[string]struct {
		text, user, want string
	}{
		"reader":       {text: same, user: "reader", want: `User "reader" cannot patch resource "managedworkloads"`},
		"patcher":      {text: same, user: "patcher"},
		"patcher, new": {text: fresh, user: "patcher", want: `User "patcher" cannot create resource "managedworkloads"`},
		"author, new":  {text: fresh, user: "author"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := run(t, ns, tc.text, "plan", "-f", "-", "--as="+tc.user)
			if (r.code == ExitOK) != (tc.want == "") || !strings.Contains(r.err, tc.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	ns := applied(t)
	same := strings.Replace(planFile, "%s", "", 1)
	next := strings.Replace(same, "app:v1", "app:v2", 1)
	run(t, ns, same, "plan", "-f", "-").want(t, ExitOK, "managedworkload.managedworkload.dev/web: no node would change\n\nNote: "+noLease+"\n", "")

	r := run(t, ns, next, "plan", "-f", "-")
	for _, want := range []string{
		"web: 3 containers would be killed; 3 nodes would change in 2 batches",
		"kill app: DefinitionChanged (image); grace 30s (Pod)", "  1. n", "  2. n", "On n",
	} {
		if r.code != ExitNo || r.err != "" || !strings.Contains(r.out, want) {
			t.Errorf("exit code %d, error %q, no %q in\n%s", r.code, r.err, want, r.out)
		}
	}
	// What rollout restart has set is not in the file and stays, as with kubectl apply.
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	reread(t, mw).Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "once"}
	mw.Spec.Paused = true
	if err := api.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	r = run(t, ns, next, "plan", "-f", "-", "-o", "json")
	var got planAnswer
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != ExitOK {
		t.Fatalf("%+v: %v", r, err)
	}
	var waiting []string
	for _, w := range got.Waiting {
		waiting = append(waiting, w.Node+" "+string(w.Reason))
	}
	if diff := cmp.Diff([]string{"n1 Paused", "n2 Paused", "n3 Paused"}, waiting); diff != "" || got.Kills != 0 || got.Kind != "Plan" || got.Name != "web" {
		t.Errorf("plan of a paused workload %s; waiting (-want +got):\n%s", r.out, diff)
	}
	if again := reread(t, mw); again.Spec.Template.Spec.Containers[0].Image != "app:v1" {
		t.Error("planning changed the object")
	}
}

func TestPlanRefused(t *testing.T) {
	ns := applied(t)
	same := strings.Replace(planFile, "%s", "", 1)
	tests := map[string]struct {
		text string
		args []string
		want string
	}{
		"by the schema":         {text: strings.Replace(same, "maxUnavailable: 2", "maxUnavailable: 0", 1), want: "must be a number of nodes of at least 1"},
		"unknown field":         {text: strings.Replace(same, "spec:\n", "spec:\n  pausedd: true\n", 1), want: `unknown field "pausedd"`},
		"another kind":          {text: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\n", want: `document 1: kind "DaemonSet" of "apps/v1" is not a ManagedWorkload`},
		"no name":               {text: strings.Replace(same, "name: web", "labels: {}", 1), want: "metadata.name is missing"},
		"another namespace":     {text: strings.Replace(same, "name: web", "name: web, namespace: other", 1), want: "does not match the namespace"},
		"no file":               {args: []string{"-f", "/nowhere"}, want: "no such file"},
		"conflict, server-side": {text: strings.Replace(same, "app:v1", "app:v2", 1), args: []string{"-f", "-", "--server-side", "--field-manager=another"}, want: "conflict"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := tc.args
			if args == nil {
				args = []string{"-f", "-"}
			}
			run(t, ns, tc.text, append([]string{"plan"}, args...)...).want(t, ExitError, "", tc.want)
		})
	}
	r := run(t, ns, strings.Replace(same, "app:v1", "app:v2", 1), "plan", "-f", "-", "--server-side", "--field-manager=another", "--force-conflicts")
	if r.code != ExitNo || !strings.Contains(r.out, "3 containers would be killed") {
		t.Errorf("server-side with force: %+v", r)
	}
}

// A file that kubectl get -o yaml has printed is planned. Once the object has changed it is refused, in the
// words with which kubectl apply refuses it for its resourceVersion.
func TestPlanOfWhatGetPrints(t *testing.T) {
	ns := applied(t)
	mw := reread(t, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}})
	mw.APIVersion, mw.Kind = v1alpha1.GroupVersion.String(), "ManagedWorkload"
	data, err := yaml.Marshal(mw)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(data), "image: app:v1", "image: app:v2", 1)
	if r := run(t, ns, next, "plan", "-f", "-"); r.code != ExitNo || !strings.Contains(r.out, "/web: 3 containers would be killed") {
		t.Errorf("%+v", r)
	}
	mw.Spec.MinReadySeconds = 3
	if err := api.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	run(t, ns, next, "plan", "-f", "-").want(t, ExitError, "", "the object has been modified; please apply your changes to the latest version")
}

// What admission makes of the changed template is asked, and where the user may not ask a note
// says so.
func TestPlanAsksAdmission(t *testing.T) {
	ns := applied(t)
	next := strings.Replace(strings.Replace(planFile, "%s", "", 1), "app:v1", "app:v2", 1)
	const note = "Note: Kills are computed from what the user wrote: a dry run of the template as a Pod is refused: "
	if r := run(t, ns, next, "plan", "-f", "-"); strings.Contains(r.out, note) {
		t.Errorf("with the right: %+v", r)
	}
	create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "planner"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "planner"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "planner"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "planner"},
	})
	r := run(t, ns, next, "plan", "-f", "-", "--as=planner")
	if r.code != ExitNo || !strings.Contains(r.out, note+`pods is forbidden: User "planner" cannot create resource "pods"`) || !strings.Contains(r.out, "3 containers would be killed") {
		t.Errorf("without the right: %+v", r)
	}
}

// A workload that is new kills nothing.
func TestPlanOfNew(t *testing.T) {
	ns := newNamespace(t)
	r := run(t, ns, strings.Replace(planFile, "%s", "", 1), "plan", "-f", "-", "-o", "yaml")
	if r.code != ExitOK || !strings.Contains(r.out, "new: true") || !strings.Contains(r.out, "kills: 0") {
		t.Errorf("%+v", r)
	}
}
