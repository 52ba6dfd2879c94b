// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestPlan(t *testing.T) {
	ns := applied(t)
	same := strings.Replace(planFile, "%s", "", 1)
	next := strings.Replace(same, "app:v1", "app:v2", 1)
	run(t, ns, same, "plan", "-f", "-").want(t, ExitOK, "managedworkload.managedworkload.dev/web: no node would change\n", "")

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
		"another kind":          {text: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\n", want: `want one ManagedWorkload, not "DaemonSet"`},
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

// A workload that is new kills nothing.
func TestPlanOfNew(t *testing.T) {
	ns := newNamespace(t)
	r := run(t, ns, strings.Replace(planFile, "%s", "", 1), "plan", "-f", "-", "-o", "yaml")
	if r.code != ExitOK || !strings.Contains(r.out, "new: true") || !strings.Contains(r.out, "kills: 0") {
		t.Errorf("%+v", r)
	}
}
